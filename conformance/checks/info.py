"""Who the runtime is, what a kubelet asks before anything else, and what its client checks in answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import grpc

from conformance.bench import eventually
from conformance.checks.images import IMAGE
from conformance.points import Group, Point
from interpose._pb import cri_pb2 as cri
from interpose.testing.eventually import WAIT_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.bench import Bench

# What a runtime without checkpoints does not have; everything else must be answered by something.
OPTIONAL = frozenset({"CheckpointContainer", "CheckpointPod", "RestorePod"})


def version(bench: Bench) -> None:
    answer = bench.call("Version")
    assert answer.version == "0.1.0"
    assert answer.runtime_name
    assert answer.runtime_version
    assert answer.runtime_api_version == bench.client.version


def conditions(bench: Bench) -> None:
    found = {condition.type: condition.status for condition in bench.call("Status").status.conditions}
    assert found == {"RuntimeReady": True, "NetworkReady": True}


def alpha_version(bench: Bench) -> None:
    outcome = bench.client.outcome("/runtime.v1alpha2.RuntimeService/Version")
    assert outcome.code == "OK"
    answer = cri.VersionResponse.FromString(outcome.reply)
    assert (answer.version, answer.runtime_api_version) == ("0.1.0", "v1alpha2")


def filesystems(bench: Bench) -> None:
    def counted() -> bool:
        found = bench.call("ImageFsInfo").image_filesystems
        assert found
        assert all(filesystem.fs_id.mountpoint.startswith("/") and filesystem.timestamp > 0 for filesystem in found)
        return all(filesystem.used_bytes.value > 0 and filesystem.inodes_used.value > 0 for filesystem in found)

    eventually(counted, "what images use to be counted")


def container_filesystems(bench: Bench) -> None:
    assert bench.call("ImageFsInfo").container_filesystems[0].fs_id.mountpoint.startswith("/")


def stats_are_known(bench: Bench) -> None:
    assert bench.code("PodSandboxStats") not in ("OK", "UNIMPLEMENTED")


def cgroup_driver(bench: Bench) -> None:
    assert bench.call("RuntimeConfig").linux.cgroup_driver == (cri.SYSTEMD if bench.world.systemd else cri.CGROUPFS)


def pod_cidr(bench: Bench) -> None:
    network = cri.NetworkConfig(pod_cidr="10.250.0.0/16")
    bench.call("UpdateRuntimeConfig", runtime_config=cri.RuntimeConfig(network_config=network))


def verbose_status(bench: Bench) -> None:
    found = bench.call("Status", verbose=True).info
    assert json.loads(found["config"])
    assert not bench.call("Status").info


def handlers(bench: Bench) -> None:
    found = {handler.name: handler.features for handler in bench.call("Status").runtime_handlers}
    assert "" in found
    assert not any(features.user_namespaces for features in found.values())


def features(bench: Bench) -> None:
    assert bench.call("Status").features.supplemental_groups_policy


def unknown_method(bench: Bench) -> None:
    for path in ("/runtime.v1.RuntimeService/NoSuchMethod", "/runtime.v9.RuntimeService/Version"):
        assert bench.client.outcome(path).code == "UNIMPLEMENTED"


def all_methods(bench: Bench, version: str = "v1") -> None:
    """An empty request of each method that would do nothing with it; streams are asked for their status only."""
    missing = set()
    for service in cri.DESCRIPTOR.services_by_name.values():
        for method in service.methods:
            if method.name == "GetContainerEvents":  # would wait for the first event
                continue
            path = f"/runtime.{version}.{service.name}/{method.name}"
            starter = bench.client.channel.unary_stream(path, request_serializer=None, response_deserializer=None)
            call = starter(b"", timeout=WAIT_LIMIT)
            for _answer in _answers(call):
                pass
            if call.code().name == "UNIMPLEMENTED":
                missing.add(method.name)
    assert missing <= OPTIONAL, f"not there: {', '.join(sorted(missing - OPTIONAL))}"


def _answers(call: Any) -> Iterator[bytes]:
    try:
        yield from call
    except grpc.RpcError:
        return


def all_alpha_methods(bench: Bench) -> None:
    all_methods(bench, "v1alpha2")


def garbage(bench: Bench) -> None:
    outcome = bench.client.outcome("Version", b"\xff\xff\xff\xff")
    assert outcome.code in ("INTERNAL", "INVALID_ARGUMENT")
    assert bench.code("Version") == "OK"


def sandbox_answer(bench: Bench) -> None:
    pod = bench.pod()
    status = pod.status().status
    assert status.id == pod.id
    assert status.metadata == pod.config.metadata
    assert status.created_at > 0
    assert (status.labels, status.annotations) == (pod.config.labels, pod.config.annotations)
    assert status.state == cri.SANDBOX_READY
    assert status.HasField("network")


def container_answer(bench: Bench) -> None:
    container = bench.home.create()
    status = container.status()
    assert status.id == container.id
    assert status.metadata == container.config.metadata
    assert status.created_at > 0
    assert status.image.image
    assert status.image_ref
    assert (status.labels, status.annotations) == (container.config.labels, container.config.annotations)
    assert status.log_path == f"{container.pod.config.log_directory}/{container.config.log_path}"


def image_answer(bench: Bench) -> None:
    image = bench.call("ImageStatus", image=cri.ImageSpec(image=IMAGE)).image
    assert image.id.startswith("sha256:")
    assert image.size > 0
    assert IMAGE in image.repo_tags


def absent_image(bench: Bench) -> None:
    answer = bench.call("ImageStatus", image=cri.ImageSpec(image="localhost/no/such:image"))
    assert not answer.HasField("image")


def whole_pod(bench: Bench) -> None:
    pod = bench.pod()
    container = pod.run_container()
    answer = pod.status()
    assert answer.timestamp > 0
    assert [status.id for status in answer.containers_statuses] == [container.id]
    assert answer.containers_statuses[0] == container.status()


def image_id(bench: Bench) -> None:
    container = bench.home.create()
    wanted = bench.call("ImageStatus", image=cri.ImageSpec(image=IMAGE)).image.id
    assert container.status().image_id == wanted
    listed = bench.call("ListContainers", filter=cri.ContainerFilter(id=container.id)).containers[0]
    assert listed.image_id == wanted


def container_user(bench: Bench) -> None:
    security = {"run_as_user": cri.Int64Value(value=1000), "supplemental_groups": [7]}
    user = bench.home.create(security=security).status().user.linux
    assert (user.uid, user.gid) == (1000, 1000)
    assert 7 in user.supplemental_groups


GROUPS = (
    Group(
        name="Runtime info",
        about="critest: 2 specs",
        points=(
            Point(name="Version has all four fields, with the version kubelets insist on", check=version),
            Point(name="Status has the conditions RuntimeReady and NetworkReady", check=conditions),
        ),
    ),
    Group(
        name="Handshake",
        about="what kubelets and crictl ask when they start",
        points=(
            Point(name="Version is answered on v1alpha2, too", check=alpha_version),
            Point(name="ImageFsInfo says where images are and what they use", check=filesystems),
            Point(name="ImageFsInfo says where containers write", check=container_filesystems),
            Point(name="PodSandboxStats of nothing is an error, but not UNIMPLEMENTED", check=stats_are_known),
            Point(name="RuntimeConfig tells the cgroup driver", check=cgroup_driver),
            Point(name="UpdateRuntimeConfig takes the pod CIDR", check=pod_cidr),
            Point(name="verbose Status has a document, plain Status has none", check=verbose_status),
            Point(name="Status names the runtime handlers with what they can", check=handlers),
            Point(name="Status announces supplementalGroupsPolicy", check=features),
            Point(name="an unknown method or version is UNIMPLEMENTED", check=unknown_method),
            Point(name="every method of v1 is there, but for checkpoints", check=all_methods, alone=True),
            Point(name="every method is there on v1alpha2 as well", check=all_alpha_methods, alone=True),
            Point(name="a request that is no message is an error of that call only", check=garbage),
        ),
    ),
    Group(
        name="Answers",
        about="what a kubelet's client checks in every answer",
        points=(
            Point(name="PodSandboxStatus has id, metadata, time, labels, state and network", check=sandbox_answer),
            Point(name="ContainerStatus has id, metadata, time, image and log path", check=container_answer),
            Point(name="ImageStatus has id, size and tags", check=image_answer),
            Point(name="ImageStatus of an absent image is OK and empty", check=absent_image),
            Point(name="PodSandboxStatus has the statuses of its containers and a time", check=whole_pod),
            Point(name="image_id is the id of the image in status and list", check=image_id),
            Point(name="ContainerStatus tells user and groups of the first process", check=container_user),
        ),
    ),
)
