"""The JSON of verbose answers, as several runtimes write it and as none should."""

import json
from typing import Any

import pytest

from interpose.core.model.resources import LinuxResources
from interpose.cri.store.verbose_info import VerboseInfo, parent_of, read_info, without_defaults


def info(**document: Any) -> VerboseInfo:
    """Parsed from text, as it comes."""
    return read_info({"info": json.dumps(document)})


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "{", '{"config":1,"runtimeSpec":[]}', '{"config":{"linux":3,"envs":{"a":1}}}', "[" * 99999],
)
def test_odd_documents_read_as_nothing(text: str) -> None:
    """Nothing raises, nothing is made up."""
    odd = read_info({"info": text})
    assert (odd.sandbox_id, odd.cgroup_parent, odd.envs, odd.current) == ("", "", (), None)
    assert odd.created in (None, LinuxResources())


def test_no_info_at_all() -> None:
    """A runtime without it."""
    assert read_info({}) == VerboseInfo()


def test_odd_values_read_as_not_set() -> None:
    """Each by itself: its neighbours count."""
    spec = {
        "process": {"oomScoreAdj": "no", "env": [1, "A=1", None]},
        "linux": {
            "resources": {
                "cpu": {"shares": True, "quota": -1, "period": 1.5, "cpus": 3, "mems": "0"},
                "memory": {"limit": 1 << 70},
                "hugepageLimits": [{"pageSize": "2MB", "limit": 4}, 7],
                "unified": {"a": 1},
            }
        },
    }
    odd = info(runtimeSpec=spec)
    assert odd.current == LinuxResources(
        cpu_quota=-1, cpuset_mems="0", hugepage_limits=(("2MB", 4),), unified={"a": ""}
    )


def test_values_in_force_for_the_variables_asked_for() -> None:
    """The request says which and in which order; its own values may be base64."""
    document = info(
        config={"envs": [{"key": "B", "value": "aGk="}, {"key": "A"}, {"key": "LOST", "value": "x"}, 5]},
        runtimeSpec={"process": {"env": ["PATH=/bin", "A=1=2", "B=hi"]}},
    )
    assert document.envs == (("B", b"hi"), ("A", b"1=2"), ("LOST", b"x"))


def test_all_variables_where_the_request_is_not_shown() -> None:
    """Better than none."""
    assert info(runtimeSpec={"process": {"env": ["A=1", "B"]}}).envs == (("A", b"1"), ("B", b""))


def test_text_that_utf8_does_not_know() -> None:
    """Half a character in JSON cannot be sent on, so it is replaced."""
    assert read_info({"info": '{"sandboxID":"\\ud800x"}'}).sandbox_id == "?x"


@pytest.mark.parametrize(
    ("path", "parent"),
    [
        ("/kubepods/burstable/pod1/abc", "/kubepods/burstable/pod1"),
        ("kube-be-pod1.slice:cri-containerd:abc", "/kube.slice/kube-be.slice/kube-be-pod1.slice"),
        ("system.slice:crio:abc", "/system.slice"),
        ("-.slice:crio:abc", "-.slice"),
        ("odd:crio:abc", "odd"),
        ("", ""),
    ],
)
def test_parent_of_a_cgroup_path(path: str, parent: str) -> None:
    """Both ways to write it; systemd's dashes are levels."""
    assert parent_of(path) == parent


def test_parent_of_a_pod_as_requested_or_in_force() -> None:
    """The request wins: only it has the path as the kubelet wrote it."""
    spec = {"linux": {"cgroupsPath": "/a/b/id"}}
    assert info(config={"linux": {"cgroup_parent": "/x"}}, runtimeSpec=spec).cgroup_parent == "/x"
    assert info(runtimeSpec=spec).cgroup_parent == "/a/b"


@pytest.mark.parametrize("key", ["io.kubernetes.cri.sandbox-id", "io.kubernetes.cri-o.SandboxID"])
def test_pod_of_a_container_from_annotations(key: str) -> None:
    """Where the document itself does not say."""
    assert info(runtimeSpec={"annotations": {key: "p1"}}).sandbox_id == "p1"


def test_swap_added_by_the_runtime_is_not_a_value_of_ours() -> None:
    """A limit of memory without a word about swap gets the same limit for both."""
    both = LinuxResources(memory_limit_in_bytes=5, memory_swap_limit_in_bytes=5)
    assert without_defaults(both, LinuxResources(memory_limit_in_bytes=5)) == LinuxResources(memory_limit_in_bytes=5)
    assert without_defaults(both, None).memory_swap_limit_in_bytes == 0
    assert without_defaults(both, both) == both
    more = LinuxResources(memory_limit_in_bytes=5, memory_swap_limit_in_bytes=6)
    assert without_defaults(more, None) == more
