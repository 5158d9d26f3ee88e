"""Messages to records and back."""

import json
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.pod import ContainerState, Pod
from interpose.core.model.resources import SCALARS, LinuxResources
from interpose.cri.store import convert
from interpose.cri.store.requested import ANNOTATION

FULL = LinuxResources(
    cpu_period=1,
    cpu_quota=-1,
    cpu_shares=3,
    memory_limit_in_bytes=4,
    oom_score_adj=-5,
    cpuset_cpus="0-3",
    cpuset_mems="0",
    hugepage_limits=(("2MB", 0), ("1GB", 7)),
    unified={"memory.high": "max"},
    memory_swap_limit_in_bytes=8,
)


def status(info: object = None, **fields: Any) -> bytes:
    """A verbose ContainerStatus."""
    reply = cri.ContainerStatusResponse(status=cri.ContainerStatus(id="c1", **fields))
    if info is not None:
        reply.info["info"] = json.dumps(info)
    return reply.SerializeToString()


def test_resources_of_a_message() -> None:
    """Every field."""
    message = cri.LinuxContainerResources(
        **{name: getattr(FULL, name) for name in SCALARS},
        unified=FULL.unified,
        hugepage_limits=[cri.HugepageLimit(page_size=size, limit=limit) for size, limit in FULL.hugepage_limits],
    )
    assert convert.to_resources(message) == FULL
    assert convert.to_resources(cri.LinuxContainerResources()) == LinuxResources()


def test_every_field_of_the_message_is_known() -> None:
    """A field added to the protocol has to be added here."""
    names = {field.name for field in cri.LinuxContainerResources.DESCRIPTOR.fields}
    assert names == set(LinuxResources.__dataclass_fields__)


def test_container_goes_where_its_own_request_says() -> None:
    """Where it says nothing, to its pod."""
    request = cri.CreateContainerRequest(pod_sandbox_id="p1")
    pod = Pod(id="p1", cgroup_parent="/made")
    assert convert.container_of_request(request, request, pod).cgroup_parent == "/made"
    request.sandbox_config.linux.cgroup_parent = "/asked"
    assert convert.container_of_request(request, request, pod).cgroup_parent == "/asked"
    assert convert.container_of_request(request, request, None).cgroup_parent == "/asked"


def test_resources_from_the_best_source() -> None:
    """In force, else by the status, else as created."""
    oci = {"linux": {"resources": {"cpu": {"shares": 1}}}, "process": {"oomScoreAdj": 9}}
    config = {"linux": {"resources": {"cpu_shares": 3}}}
    shown = {"resources": cri.ContainerResources(linux=cri.LinuxContainerResources(cpu_shares=2))}
    found = [
        convert.container_of_status(status({"runtimeSpec": oci, "config": config}, **shown)),
        convert.container_of_status(status({"config": config}, **shown)),
        convert.container_of_status(status({"config": config})),
        convert.container_of_status(status()),
    ]
    assert [one.record.resources for one in found] == [
        LinuxResources(cpu_shares=1, oom_score_adj=9),
        LinuxResources(cpu_shares=2),
        LinuxResources(cpu_shares=3),
        LinuxResources(),
    ]


def test_container_without_the_create_request() -> None:
    """CRI-O shows the OCI view only: what was requested is in the annotation."""
    spec = {
        "linux": {"resources": {"cpu": {"cpus": "1"}}, "cgroupsPath": "a-b.slice:crio:c1"},
        "annotations": {"io.kubernetes.cri-o.SandboxID": "p1"},
    }
    found = convert.container_of_status(
        status({"runtimeSpec": spec}, annotations={ANNOTATION: '{"cpuset_cpus":""}'}, state=cri.CONTAINER_RUNNING)
    )
    assert (found.pod_id, found.record.cgroup_parent) == ("p1", "/a.slice/a-b.slice")
    assert (found.record.resources.cpuset_cpus, found.record.requested.cpuset_cpus) == ("1", "")
    assert found.within(Pod(id="p1", cgroup_parent="/k")).cgroup_parent == "/a.slice/a-b.slice"


def test_cgroup_of_a_container_that_the_runtime_does_not_show() -> None:
    """Is below that of its pod."""
    found = convert.container_of_status(status())
    assert found.within(Pod(id="p1", cgroup_parent="/k")).cgroup_parent == "/k"


def test_resources_of_a_pod_are_not_those_of_its_pause_container() -> None:
    """The OCI view of a sandbox is about its own process."""
    reply = cri.PodSandboxStatusResponse(status=cri.PodSandboxStatus(id="p1"))
    reply.info["info"] = json.dumps(
        {
            "config": {"linux": {"overhead": {"cpu_shares": 5}}},
            "runtimeSpec": {"linux": {"resources": {"cpu": {"shares": 2}}}},
        }
    )
    pod = convert.pod_of_status(reply.SerializeToString())
    assert (pod.resources, pod.overhead) == (LinuxResources(), LinuxResources(cpu_shares=5))


@pytest.mark.parametrize(
    "read",
    [convert.pod_of_status, convert.container_of_status, convert.listed_pods, convert.listed_containers],
)
def test_bytes_that_are_no_message(read: Any) -> None:
    """One kind of error, whatever it should have been."""
    with pytest.raises(ValueError, match="not a "):
        read(b"\xff\xff")


def test_lists_show_who_is_there() -> None:
    """Names, attempts and states; a state nobody knows is UNKNOWN."""
    pods = cri.ListPodSandboxResponse()
    pods.items.add(id="p1", state=cri.SANDBOX_NOTREADY).metadata.CopyFrom(
        cri.PodSandboxMetadata(name="n", namespace="s", uid="u", attempt=2)
    )
    assert convert.listed_pods(pods.SerializeToString()) == [("p1", False, "s", "n", "u", 2)]
    containers = cri.ListContainersResponse()
    containers.containers.add(id="c1", pod_sandbox_id="p1", state=cri.CONTAINER_UNKNOWN).metadata.name = "n"
    assert convert.listed_containers(containers.SerializeToString()) == [("c1", ContainerState.UNKNOWN, "p1", "n", 0)]


def test_keys_of_labels_are_kept_once() -> None:
    """All pods of a kubelet have the same ones."""
    first, second = (
        convert.container_of_status(status(labels={"io.kubernetes.pod.name": name})).record for name in ("a", "b")
    )
    assert next(iter(first.labels)) is next(iter(second.labels))


def test_filters_are_told_from_no_filter() -> None:
    """An empty filter asks for everything; a request that cannot be read asks for nothing."""
    every = [
        b"",
        cri.ListContainersRequest(filter=cri.ContainerFilter()).SerializeToString(),
        convert.list_containers(),
    ]
    assert all(convert.asks_for_all("ListContainers", one) for one in every)
    some = [convert.list_containers(uid="u"), convert.list_containers(pod_id="p"), b"\xff"]
    running = cri.ListContainersRequest()
    running.filter.state.state = cri.CONTAINER_CREATED  # zero, and set all the same
    assert not any(convert.asks_for_all("ListContainers", one) for one in [*some, running.SerializeToString()])
    assert convert.asks_for_all("ListPodSandbox", convert.list_pods())
    assert not convert.asks_for_all("ListPodSandbox", convert.list_pods(uid="u"))


def test_update_carries_every_field_that_is_set() -> None:
    """Those with keys as well."""
    request = cri.UpdateContainerResourcesRequest.FromString(convert.update_resources("c1", FULL))
    assert (request.container_id, convert.to_resources(request.linux)) == ("c1", FULL)


def test_update_says_nothing_about_the_others() -> None:
    """A runtime must not take a zero for a wish."""
    request = cri.UpdateContainerResourcesRequest.FromString(
        convert.update_resources("c1", LinuxResources(cpu_quota=-1, cpuset_cpus="2-3"))
    )
    assert [field.name for field, _ in request.linux.ListFields()] == ["cpu_quota", "cpuset_cpus"]


def test_list_in_parts_is_the_same_list() -> None:
    """Each part is a list of its own; a short one is a single part."""
    listed = [cri.Container(id=f"{number:0300}", pod_sandbox_id="p") for number in range(20)]
    data = cri.ListContainersResponse(containers=listed).SerializeToString()
    parts = convert.list_parts(data, 1000)
    assert len(parts) == 5
    assert b"".join(parts) == data
    assert [found.id for part in parts for found in convert.listed_containers(part)] == [one.id for one in listed]
    assert convert.list_parts(data) == [data]


@pytest.mark.parametrize("data", [b"", b"\xff\xff\xff", b"\x0a\xff\xff", b"\x0a\x64abc", b"\x12\x01a\x0a\x01"])
def test_what_is_no_list_is_one_part(data: bytes) -> None:
    """Who reads it says so."""
    assert convert.list_parts(data, 1) == [data]
