"""Questions and repeated answers told by bytes alone: never other than the parsed messages say."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interpose._pb import cri_pb2 as cri
from interpose._pb import hook_pb2 as hook
from interpose.hooks.dispatch.merge import MergeResult, merge
from interpose.hooks.dispatch.wire import pod_question, repeats
from interpose.testing import pods

TEXTS = st.text(alphabet=st.sampled_from("ab-/\u00e9"), max_size=3) | st.just("x" * 200)
MAPS = st.dictionaries(TEXTS, TEXTS, max_size=3)
RESOURCES = st.builds(
    lambda shares, cpus, unified, page: {
        "cpu_shares": shares,
        "cpu_quota": -shares,
        "cpuset_cpus": cpus,
        "unified": unified,
        "hugepage_limits": page,
    },
    st.integers(0, 1 << 40),
    st.sampled_from(["", "0-3"]),
    MAPS,
    st.lists(st.just({"page_size": "2MB", "limit": 300}), max_size=1),
)


def request_of(labels: dict[str, str], annotations: dict[str, str], parts: list[dict[str, Any]], attempt: int) -> Any:
    """A RunPodSandbox with resources, or without."""
    config = pods.pod_config("web", "shop", labels=labels, annotations=annotations, attempt=attempt)
    for name, values in zip(("resources", "overhead"), parts, strict=False):
        getattr(config.linux, name).CopyFrom(cri.LinuxContainerResources(**values))
    return pods.run_request(config, "kata")


@given(MAPS, MAPS, st.lists(RESOURCES, max_size=2), st.sampled_from([0, 4, 300]))
def test_question_of_bytes_is_that_of_the_message(
    labels: dict[str, str], annotations: dict[str, str], parts: list[dict[str, Any]], attempt: int
) -> None:
    """Or there is none: of resources with texts that are not ASCII, and of huge pages."""
    request = request_of(labels, annotations, parts, attempt)
    question = pod_question(request.SerializeToString())
    if question is None:
        assert parts
        return
    asked = hook.PodSandboxHookRequest.FromString(question)
    meta, linux = request.config.metadata, request.config.linux
    assert asked == hook.PodSandboxHookRequest(
        pod_meta=hook.PodSandboxMetadata(name="web", namespace="shop", uid=meta.uid, attempt=attempt),
        runtime_handler="kata",
        labels=request.config.labels,
        annotations=request.config.annotations,
        cgroup_parent=linux.cgroup_parent,
        resources=copied(linux.resources) if linux.HasField("resources") else None,
        overhead=copied(linux.overhead) if linux.HasField("overhead") else None,
    )


def copied(resources: Any) -> Any:
    """The resources of CRI as those of the hook protocol."""
    return hook.LinuxContainerResources.FromString(resources.SerializeToString())


def field(number: int, value: bytes) -> bytes:
    """One short field."""
    return bytes((number << 3 | 2, len(value))) + value


LINUX = field(8, field(1, b"/kubepods"))


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\xff",
        b"\x0a",
        b"\x0a\x05a",
        b"\x0a\xff\xff\xff\xff\xff\xff",
        b"\x0a\xff",
        b"\x08\x01",
        field(1, b"") + field(1, b""),
        field(1, b"\xff"),
        field(1, LINUX + LINUX),
        field(1, field(8, b"\xff")),
        field(1, field(8, field(1, b"a") + field(1, b"b"))),
        field(1, field(6, field(1, b"\xff"))),
        field(2, b"\xff"),
        field(1, field(1, b"\x28\x01")),
        field(1, field(1, b"\x08")),
        field(1, field(1, b"\x08" + b"\xff" * 11)),
        field(1, field(1, field(1, b"\xff"))),
        field(1, field(1, b"\x0a\x05ab")),
    ],
)
def test_what_is_not_as_usual_is_parsed(request_bytes: bytes) -> None:
    """Broken, unknown, twice, or no text."""
    assert pod_question(request_bytes) is None


@given(MAPS, MAPS, st.lists(RESOURCES, max_size=1), st.randoms())
def test_echo_is_told_by_its_bytes(
    labels: dict[str, str], annotations: dict[str, str], parts: list[dict[str, Any]], order: Any
) -> None:
    """In whatever order a server writes maps."""
    resources = [hook.LinuxContainerResources(**values) for values in parts]
    more: dict[str, Any] = {"resources": resources[0]} if resources else {}
    asked = hook.PodSandboxHookRequest(labels=labels, annotations=annotations, cgroup_parent="/x", **more)
    shuffled = list(labels.items())
    order.shuffle(shuffled)
    answer = hook.PodSandboxHookResponse(annotations=annotations, cgroup_parent="/x", **more)
    for key, value in shuffled:
        answer.labels[key] = value
    question = asked.SerializeToString(deterministic=True)
    assert repeats(question, answer.SerializeToString(deterministic=True), about_pod=True)
    answer.labels["more"] = "1"
    assert not repeats(question, answer.SerializeToString(), about_pod=True)


CHANGES: list[dict[str, Any]] = [
    {},
    {"container_envs": {"A": "1"}},
    {"container_envs": {"A": "2"}},
    {"pod_cgroup_parent": "/y"},
    {"container_resources": {"cpu_shares": 3}},
    {"clear": ["container_envs"]},
]


@pytest.mark.parametrize("change", CHANGES)
def test_answer_that_repeats_changes_nothing(change: dict[str, Any]) -> None:
    """What is told by bytes is what merging would find."""
    values: dict[str, Any] = {
        "container_annotations": {"a": "b"},
        "container_envs": {"A": "1"},
        "pod_cgroup_parent": "/x",
        "container_resources": {"cpu_shares": 2},
    }
    asked = hook.ContainerResourceHookRequest(pod_labels={"l": "1"}, **values)
    answer = hook.ContainerResourceHookResponse(**{**values, **change})
    repeated = repeats(asked.SerializeToString(), answer.SerializeToString(), about_pod=False)
    assert repeated == (change in CHANGES[:2])
    if repeated:
        assert merge(asked, answer) == MergeResult()


def test_same_texts_in_other_bytes_are_the_same() -> None:
    """A field that is there and empty is as good as none, as in the parsed messages."""
    assert repeats(field(5, b""), b"", about_pod=True)
    assert repeats(b"", field(4, b""), about_pod=True)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (b"\xff", b""),
        (b"", b"\xff"),
        (b"", field(5, b"new")),
        (field(3, b"\xff"), b""),
        (field(3, field(3, b"a")), b""),
        (field(3, field(1, b"a") + field(1, b"b")), b""),
        (b"", field(1, b"\xff")),
        (field(5, b"/x") + field(5, b"/y"), field(3, b"/y")),
    ],
)
def test_odd_bytes_are_no_echo(question: bytes, answer: bytes) -> None:
    """They are looked at more closely."""
    assert not repeats(question, answer, about_pod=True)
