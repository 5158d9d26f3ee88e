"""Changes in CRI requests: each in its place, and nothing else touched."""

from collections.abc import Sequence
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.hooks.dispatch.apply import apply
from interpose.hooks.dispatch.merge import FieldChange
from interpose.testing import pods

UNKNOWN = b"\xfa\x3f\x03abc"  # field 1023, which no message has


class Node:
    """All CPUs and memory nodes, and how often somebody asked for them."""

    def __init__(self, cpus: str = "0-7", mems: str = "0-1") -> None:
        self.sets = (cpus, mems)
        self.asked = 0

    def __call__(self) -> tuple[str, str]:
        """Both as lists."""
        self.asked += 1
        return self.sets


def never() -> tuple[str, str]:
    """For requests in which nobody needs to know."""
    raise AssertionError("asked for the CPUs of the node")


def create(envs: Sequence[tuple[str, bytes]] = ()) -> cri.CreateContainerRequest:
    """CreateContainer as a kubelet sends it."""
    pod = pods.pod_config("web")
    request = pods.create_request("s-1", pod, pods.container_config(pod, annotations={"team": "blue"}))
    request.config.envs.extend(cri.KeyValue(key=key, value=value) for key, value in envs)
    return request


# ---- Where things go -------------------------------------------------------------------------------------------------


def test_run_pod_sandbox() -> None:
    """Labels, annotations, cgroup parent and resources of the pod."""
    request = pods.run_request(pods.pod_config("web", annotations={"old": "1"}))
    wanted = cri.RunPodSandboxRequest.FromString(request.SerializeToString())
    changes = [
        FieldChange("labels[app]", None, "x"),
        FieldChange("annotations[old]", "1", None),
        FieldChange("cgroup_parent", request.config.linux.cgroup_parent, "/other"),
        FieldChange("resources.cpu_shares", None, 2),
    ]
    assert apply("RunPodSandbox", request, changes, never) == ()
    wanted.config.labels["app"] = "x"
    del wanted.config.annotations["old"]
    wanted.config.linux.cgroup_parent = "/other"
    wanted.config.linux.resources.cpu_shares = 2
    assert request == wanted


def test_create_container() -> None:
    """Annotations, variables and resources of the container, and the cgroup parent of its pod."""
    request = create()
    wanted = cri.CreateContainerRequest.FromString(request.SerializeToString())
    changes = [
        FieldChange("container_annotations[team]", "blue", "red"),
        FieldChange("pod_cgroup_parent", request.sandbox_config.linux.cgroup_parent, "/other"),
        FieldChange("container_envs[A]", None, "ä"),
        FieldChange("container_resources.oom_score_adj", 999, None),
        FieldChange("container_resources.hugepage_limits[2MB]", None, 0),
        FieldChange("container_resources.unified[memory.high]", None, "max"),
    ]
    assert apply("CreateContainer", request, changes, never) == ()
    wanted.config.annotations["team"] = "red"
    wanted.sandbox_config.linux.cgroup_parent = "/other"
    wanted.config.envs.add(key="A", value="ä".encode())
    wanted.config.linux.resources.oom_score_adj = 0
    wanted.config.linux.resources.hugepage_limits.add(page_size="2MB")
    wanted.config.linux.resources.unified["memory.high"] = "max"
    assert request == wanted


def test_update_container_resources() -> None:
    """Values are written beside those of the caller; what the caller left out stays out."""
    request = cri.UpdateContainerResourcesRequest(container_id="c", annotations={"a": "1", "b": "2"})
    request.linux.cpu_shares = 512
    changes = [
        FieldChange("container_annotations[a]", "1", "x"),
        FieldChange("container_annotations[b]", "2", None),
        FieldChange("container_resources.cpu_shares", 512, 2),
        FieldChange("container_resources.cpuset_cpus", None, "0-3"),
    ]
    assert apply("UpdateContainerResources", request, changes, never) == ()
    assert request == cri.UpdateContainerResourcesRequest(
        container_id="c",
        annotations={"a": "x"},
        linux=cri.LinuxContainerResources(cpu_shares=2, cpuset_cpus="0-3"),
    )


# ---- Taking away in an update ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cpu_period", 100_000),
        ("cpu_quota", -1),
        ("cpu_shares", 1024),
        ("memory_limit_in_bytes", -1),
        ("memory_swap_limit_in_bytes", -1),
        ("cpuset_cpus", "0-7"),
        ("cpuset_mems", "0-1"),
    ],
)
def test_an_update_clears_by_a_value_that_means_it(name: str, value: Any) -> None:
    """A zero in a patch says "leave it"."""
    request = cri.UpdateContainerResourcesRequest()
    assert (
        apply("UpdateContainerResources", request, [FieldChange(f"container_resources.{name}", 5, None)], Node()) == ()
    )
    assert getattr(request.linux, name) == value


def test_the_node_is_asked_once() -> None:
    """And not at all by those who need not know."""
    node = Node()
    both = [FieldChange(f"container_resources.cpuset_{what}", "0", None) for what in ("cpus", "mems")]
    apply("UpdateContainerResources", cri.UpdateContainerResourcesRequest(), both, node)
    assert node.asked == 1


def test_an_update_without_knowledge_of_the_node_clears_nothing() -> None:
    """An empty set in a patch would say "leave it" anyway."""
    request = cri.UpdateContainerResourcesRequest()
    path = "container_resources.cpuset_cpus"
    assert apply("UpdateContainerResources", request, [FieldChange(path, "0", None)], Node("", "")) == (path,)
    assert request == cri.UpdateContainerResourcesRequest()


@pytest.mark.parametrize("what", ["oom_score_adj", "unified[memory.high]", "hugepage_limits[2MB]"])
def test_what_an_update_cannot_take_away(what: str) -> None:
    """It is reported, and the caller's own wish stays in the request."""
    request = cri.UpdateContainerResourcesRequest()
    request.linux.oom_score_adj = 5
    request.linux.unified["memory.high"] = "1"
    request.linux.hugepage_limits.add(page_size="2MB", limit=1)
    before = request.SerializeToString(deterministic=True)
    path = f"container_resources.{what}"
    assert apply("UpdateContainerResources", request, [FieldChange(path, 5, None)], never) == (path,)
    assert request.SerializeToString(deterministic=True) == before


# ---- Without a target ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "request_class", "path"),
    [
        ("UpdateContainerResources", cri.UpdateContainerResourcesRequest, "container_envs[A]"),
        ("UpdateContainerResources", cri.UpdateContainerResourcesRequest, "pod_cgroup_parent"),
        ("StartContainer", cri.StartContainerRequest, "container_resources.cpu_shares"),
        ("CreateContainer", cri.CreateContainerRequest, "labels[a]"),
        ("CreateContainer", cri.CreateContainerRequest, "nonsense"),
    ],
)
@pytest.mark.parametrize("after", ["1", None])
def test_a_change_without_a_target(method: str, request_class: Any, path: str, after: str | None) -> None:
    """It is reported and the request stays as it was."""
    request = request_class()
    assert apply(method, request, [FieldChange(path, "0", after)], never) == (path,)
    assert request == request_class()


@pytest.mark.parametrize(
    ("method", "request_class", "paths"),
    [
        (
            "RunPodSandbox",
            cri.RunPodSandboxRequest,
            ["labels[a]", "annotations[a]", "cgroup_parent", "resources.cpu_quota", "resources.unified[a]"],
        ),
        (
            "CreateContainer",
            cri.CreateContainerRequest,
            ["container_annotations[a]", "container_envs[A]", "pod_cgroup_parent", "container_resources.cpuset_cpus"],
        ),
        ("UpdateContainerResources", cri.UpdateContainerResourcesRequest, ["container_annotations[a]"]),
    ],
)
def test_clearing_in_an_empty_request(method: str, request_class: Any, paths: list[str]) -> None:
    """Nothing is there to take away, and no empty submessage is left behind."""
    request = request_class()
    assert sorted(apply(method, request, [FieldChange(path, "0", None) for path in paths], never)) == sorted(paths)
    assert request.SerializeToString() == b""


def test_writing_into_an_empty_request() -> None:
    """Submessages come into being, as far as needed."""
    pod = cri.RunPodSandboxRequest()
    assert apply("RunPodSandbox", pod, [FieldChange("resources.cpu_quota", None, -1)], never) == ()
    assert pod.config.linux.resources.cpu_quota == -1
    container = cri.CreateContainerRequest()
    assert apply("CreateContainer", container, [FieldChange("pod_cgroup_parent", None, "/x")], never) == ()
    assert container.sandbox_config.linux.cgroup_parent == "/x"
    assert not container.HasField("config")
    variable = cri.CreateContainerRequest()
    assert apply("CreateContainer", variable, [FieldChange("container_envs[A]", None, "1")], never) == ()
    assert [(item.key, item.value) for item in variable.config.envs] == [("A", b"1")]


# ---- Several answers -------------------------------------------------------------------------------------------------


def test_of_several_changes_of_a_value_the_last_counts() -> None:
    """A later plugin wins over an earlier one."""
    request = create()
    changes = [
        FieldChange("container_resources.cpu_shares", 102, 5),
        FieldChange("container_resources.cpu_shares", 5, 7),
    ]
    assert apply("CreateContainer", request, changes, never) == ()
    assert request.config.linux.resources.cpu_shares == 7


def test_what_one_plugin_adds_and_another_clears_never_happened() -> None:
    """Also in an update, which could not take it away, and with a variable that no plugin can see."""
    path = "container_resources.unified[memory.high]"
    update = cri.UpdateContainerResourcesRequest()
    assert (
        apply("UpdateContainerResources", update, [FieldChange(path, None, "1"), FieldChange(path, "1", None)], never)
        == ()
    )
    assert update == cri.UpdateContainerResourcesRequest()
    request = create([("A", b"\xff")])
    changes = [FieldChange("container_envs[A]", None, "1"), FieldChange("container_envs[A]", "1", None)]
    assert apply("CreateContainer", request, changes, never) == ()
    assert [(item.key, item.value) for item in request.config.envs] == [("A", b"\xff")]


# ---- What stays ------------------------------------------------------------------------------------------------------


def test_variables_keep_order_bytes_and_duplicates() -> None:
    """The last entry of a name counts, so that one is changed, in its place; new ones follow."""
    request = create([("A", b"1"), ("B", b"\xff"), ("A", b"2"), ("C", b"3")])
    changes = [
        FieldChange("container_envs[A]", "2", "x"),
        FieldChange("container_envs[D]", None, "4"),
        FieldChange("container_envs[E]", None, ""),
    ]
    assert apply("CreateContainer", request, changes, never) == ()
    assert [(item.key, item.value) for item in request.config.envs] == [
        ("A", b"1"),
        ("B", b"\xff"),
        ("A", b"x"),
        ("C", b"3"),
        ("D", b"4"),
        ("E", b""),
    ]


def test_clearing_a_variable_removes_every_entry_of_it() -> None:
    """Otherwise an earlier value would come to light."""
    request = create([("A", b"1"), ("B", b"2"), ("A", b"\xff")])
    assert apply("CreateContainer", request, [FieldChange("container_envs[A]", "1", None)], never) == ()
    assert [(item.key, item.value) for item in request.config.envs] == [("B", b"2")]


def test_huge_pages_are_changed_in_place() -> None:
    """Of two entries for a size the last one counts; clearing removes both."""
    request = create()
    pages = request.config.linux.resources.hugepage_limits
    for size, limit in (("2MB", 1), ("1GB", 2), ("2MB", 3)):
        pages.add(page_size=size, limit=limit)
    path = "container_resources.hugepage_limits[2MB]"
    apply("CreateContainer", request, [FieldChange(path, 3, 9)], never)
    assert [(item.page_size, item.limit) for item in pages] == [("2MB", 1), ("1GB", 2), ("2MB", 9)]
    apply("CreateContainer", request, [FieldChange(path, 9, None)], never)
    assert [(item.page_size, item.limit) for item in pages] == [("1GB", 2)]


def test_unknown_fields_survive() -> None:
    """Those of a younger kubelet, at every level of the request and beside what changes."""
    request = cri.CreateContainerRequest.FromString(create().SerializeToString() + UNKNOWN)
    request.config.MergeFromString(UNKNOWN)
    request.config.linux.resources.MergeFromString(UNKNOWN)
    changes = [
        FieldChange("container_resources.cpu_shares", 102, 5),
        FieldChange("container_resources.oom_score_adj", 999, None),
        FieldChange("container_envs[A]", None, "1"),
    ]
    apply("CreateContainer", request, changes, never)
    assert request.SerializeToString().count(UNKNOWN) == 3
