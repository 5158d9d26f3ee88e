"""What a hook server is asked with, from requests and from records."""

from dataclasses import replace

import pytest

from interpose._pb import cri_pb2 as cri
from interpose._pb import hook_pb2 as hook
from interpose.core.model.pod import Container, Pod
from interpose.core.model.resources import LinuxResources
from interpose.cri.parser import CriParser
from interpose.hooks.api.registration import EVERY_POD, Selector
from interpose.hooks.dispatch import requests
from interpose.relay.api import Body
from interpose.testing import pods

POD = Pod(
    id="p1",
    name="web",
    uid="u1",
    namespace="shop",
    attempt=2,
    runtime_handler="kata",
    labels={"app": "web"},
    annotations={"note": "1"},
    cgroup_parent="/kubepods/podu1",
    requested_cgroup_parent="/kubepods/podu1",
    resources=LinuxResources(cpu_shares=1024),
    overhead=LinuxResources(memory_limit_in_bytes=64 << 20),
)
CONTAINER = Container(
    id="c1",
    pod_id="p1",
    name="app",
    attempt=3,
    annotations={"a": "b"},
    envs=(("PATH", b"/bin"), ("RAW", b"\xff"), ("PATH", b"/sbin")),
    resources=LinuxResources(
        cpu_shares=512, cpu_quota=-1, unified={"memory.high": "1"}, hugepage_limits=(("2MB", 4), ("1GB", 1))
    ),
)


def body_of(request: cri.RunPodSandboxRequest) -> Body:
    """The request as it comes."""
    return Body(request.SerializeToString(), CriParser("RunPodSandboxRequest"))


def looked_into(body: Body) -> Body:
    """The same when somebody above may have edited it."""
    assert body.message is not None
    return body


@pytest.mark.parametrize("way", ["bytes", "message"])
def test_pod_to_run_tells_all_of_the_request(way: str) -> None:
    """Identity with the attempt, handler, labels, annotations, cgroup parent, resources and overhead."""
    config = pods.pod_config("web", "shop", uid="u1", attempt=4, labels={"app": "web"}, annotations={"note": "1"})
    config.linux.resources.CopyFrom(cri.LinuxContainerResources(cpu_shares=2048, unified={"cpu.idle": "1"}))
    config.linux.overhead.CopyFrom(cri.LinuxContainerResources(memory_limit_in_bytes=1 << 20))
    body = body_of(pods.run_request(config, "kata"))
    subject = requests.pod_to_run(body if way == "bytes" else looked_into(body))
    asked = subject.message
    assert subject.is_selected_by(EVERY_POD)
    assert asked.pod_meta == hook.PodSandboxMetadata(name="web", uid="u1", namespace="shop", attempt=4)
    assert asked.runtime_handler == "kata"
    assert dict(asked.labels) == dict(config.labels)
    assert dict(asked.annotations) == {"note": "1"}
    assert asked.cgroup_parent == "/kubepods/burstable/podu1"
    assert asked.resources == hook.LinuxContainerResources(cpu_shares=2048, unified={"cpu.idle": "1"})
    assert asked.overhead == hook.LinuxContainerResources(memory_limit_in_bytes=1 << 20)


def test_pod_of_bytes_is_the_pod_of_the_message() -> None:
    """Selectors and marks see the same, and an edit from above counts."""
    config = pods.pod_config("web", "shop", labels={"app": "web"}, annotations={"skip": "true"})
    body = body_of(pods.run_request(config, "kata"))
    by_bytes, by_message = requests.pod_to_run(body), requests.pod_to_run(looked_into(body))
    for subject in (by_bytes, by_message):
        assert subject.has_mark("skip", "true")
        assert not subject.has_mark("nothing", "true")
        assert subject.is_selected_by(Selector())
        assert subject.is_selected_by(Selector(namespaces=frozenset({"shop"}), runtime_handlers=frozenset({"kata"})))
        assert not subject.is_selected_by(Selector(labels={"app": "db"}))
        assert subject.log_fields == {"pod": "shop/web"}
    assert by_bytes.message == by_message.message
    assert hook.PodSandboxHookRequest.FromString(by_message.data) == by_bytes.message
    body.message.config.labels["app"] = "db"
    assert requests.pod_to_run(body).is_selected_by(Selector(labels={"app": "db"}))


def test_pod_without_linux_part_is_no_trouble() -> None:
    """A request of the barest kind; nothing is added to it by looking."""
    request = cri.RunPodSandboxRequest()
    body = body_of(request)
    assert requests.pod_to_run(body).message == hook.PodSandboxHookRequest()
    assert requests.pod_to_run(looked_into(body)).message.pod_meta == hook.PodSandboxMetadata()
    assert not requests.pod_to_run(looked_into(body)).message.HasField("resources")
    assert body.message == request


def test_known_pod_tells_all_of_the_record() -> None:
    """After a stop there is only the record."""
    asked = requests.existing_pod(POD).message
    assert asked == hook.PodSandboxHookRequest(
        pod_meta=hook.PodSandboxMetadata(name="web", uid="u1", namespace="shop", attempt=2),
        runtime_handler="kata",
        labels={"app": "web"},
        annotations={"note": "1"},
        cgroup_parent="/kubepods/podu1",
        resources=hook.LinuxContainerResources(cpu_shares=1024),
        overhead=hook.LinuxContainerResources(memory_limit_in_bytes=64 << 20),
    )


def test_container_to_create_takes_the_pod_from_its_record_and_the_rest_from_the_request() -> None:
    """Labels that a plugin added to the pod are in the record only."""
    config = pods.pod_config("web", "shop", uid="u1")
    container = pods.container_config(config, envs={"A": "1", "RAW": b"\xff"}, attempt=3)
    asked = requests.container_to_create(pods.create_request("p1", config, container), POD).message
    assert dict(asked.pod_labels) == {"app": "web"}
    assert asked.container_meta == hook.ContainerMetadata(name="app", attempt=3)
    assert dict(asked.container_annotations) == dict(container.annotations)
    assert asked.container_resources.oom_score_adj == 999
    assert dict(asked.container_envs) == {"A": "1"}
    assert asked.pod_resources == hook.LinuxContainerResources(cpu_shares=1024)
    assert asked.pod_cgroup_parent == "/kubepods/burstable/podu1"


def test_container_without_resources_is_told_as_having_none() -> None:
    """The message is there and empty, as plugins expect that read into it without asking."""
    asked = requests.container_to_create(cri.CreateContainerRequest(), POD).message
    assert asked.HasField("container_resources")
    assert asked.container_resources == hook.LinuxContainerResources()
    assert asked.pod_cgroup_parent == "/kubepods/podu1"


def test_known_container_tells_all_of_the_record() -> None:
    """Of an environment variable given twice the last counts; one that is not text is left out."""
    asked = requests.existing_container(CONTAINER, POD).message
    assert asked.container_meta == hook.ContainerMetadata(name="app", attempt=3, id="c1")
    assert dict(asked.container_envs) == {"PATH": "/sbin"}
    assert asked.container_resources == hook.LinuxContainerResources(
        cpu_shares=512,
        cpu_quota=-1,
        unified={"memory.high": "1"},
        hugepage_limits=[hook.HugepageLimit(page_size="2MB", limit=4), hook.HugepageLimit(page_size="1GB", limit=1)],
    )
    assert asked.pod_cgroup_parent == "/kubepods/podu1"


def test_container_placed_elsewhere_tells_its_own_cgroup_parent() -> None:
    """A plugin may have moved one container out of its pod's group."""
    asked = requests.existing_container(replace(CONTAINER, cgroup_parent="/batch"), POD).message
    assert asked.pod_cgroup_parent == "/batch"


def test_update_is_laid_over_what_was_asked_for() -> None:
    """Plugins see the whole of what is wanted, not only the patch, and never their own earlier result."""
    patch = cri.LinuxContainerResources(cpu_shares=100, unified={"memory.low": "2"})
    patch.hugepage_limits.add(page_size="2MB", limit=8)
    request = cri.UpdateContainerResourcesRequest(container_id="c1", linux=patch, annotations={"x": "y"})
    scaled = replace(CONTAINER, requested=CONTAINER.resources, resources=LinuxResources(cpu_quota=7, cpuset_cpus="1"))
    subject = requests.container_to_update(request, scaled, POD)
    asked = subject.message
    assert subject.in_force == {"container_resources.cpu_quota": 7, "container_resources.cpuset_cpus": "1"}
    assert asked.container_resources.cpuset_cpus == ""
    assert asked.container_resources.cpu_shares == 100
    assert asked.container_resources.cpu_quota == -1
    assert dict(asked.container_resources.unified) == {"memory.high": "1", "memory.low": "2"}
    assert {one.page_size: one.limit for one in asked.container_resources.hugepage_limits} == {"2MB": 8, "1GB": 1}
    assert dict(asked.container_annotations) == {"a": "b", "x": "y"}


def test_fields_newer_than_the_protocol_are_not_passed_on() -> None:
    """They stay in the request; a plugin that echoes must not see what it cannot know."""
    config = pods.pod_config("web")
    config.linux.resources.ParseFromString(b"\x18\x02" + b"\xba\x3e\x05later")
    asked = requests.pod_to_run(body_of(pods.run_request(config))).message
    assert asked.resources.SerializeToString() == b"\x18\x02"


def test_skip_mark_is_a_label_or_an_annotation() -> None:
    """Either may carry it, with exactly the value."""
    for pod in (replace(POD, labels={"skip": "true"}), replace(POD, annotations={"skip": "true"})):
        subject = requests.existing_pod(pod)
        assert subject.has_mark("skip", "true")
        assert not subject.has_mark("skip", "yes")
        assert not subject.has_mark("", "true")


def test_copy_is_a_message_of_its_own() -> None:
    """What plugins change in one does not show in the other."""
    subject = requests.existing_pod(POD)
    subject.copy().labels["new"] = "1"
    assert "new" not in subject.message.labels


def test_a_container_that_has_what_was_asked_for_holds_nothing_else() -> None:
    """Then what is sent is what is in force."""
    same = replace(CONTAINER, requested=CONTAINER.resources)
    subject = requests.container_to_update(cri.UpdateContainerResourcesRequest(container_id="c1"), same, POD)
    assert subject.in_force == {}
