"""Laws of what is remembered about containers: nothing is lost, damage is found, guesses undo the kubelet."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interpose.core.model.cgroup import KubeQos, quota_of, shares_of
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import Container, Pod
from interpose.core.model.resources import LinuxResources
from interpose.core.policy.decision import Grant
from interpose.core.policy.request import Amounts, Key, Request, RequestSource
from interpose.resmgr.container_request import ANNOTATIONS, limit_of, make_request, memory_of, milli_of, resize_amounts
from interpose.resmgr.state.grant_annotation import GrantNote, grant_note, read_note
from interpose.resmgr.state.state import SavedEntry, State, decode, encode

texts = st.text(st.characters(), max_size=12)  # also halves of characters, which no file can hold as they are
numbers = st.integers(-(1 << 63), (1 << 63) - 1)
cpusets = st.sets(st.integers(0, 8191), max_size=20).map(CpuSet.of)
grants = st.builds(
    Grant,
    exclusive=cpusets,
    pools=st.lists(texts, max_size=3).map(tuple),
    pinned=st.booleans(),
    mems=st.none() | cpusets,
    shares=st.none() | numbers,
    quota=st.none() | numbers,
    milli=numbers,
    envs=st.dictionaries(texts, texts, max_size=3),
    command=st.none() | st.lists(texts, max_size=3).map(tuple),
    details=st.dictionaries(texts, texts, max_size=3),
)
amounts = st.builds(
    Amounts,
    milli=numbers,
    limit_milli=st.none() | numbers,
    memory=st.none() | numbers,
    memory_limit=st.none() | numbers,
    extended=st.dictionaries(texts, numbers, max_size=3),
    quota=st.booleans(),
    source=st.sampled_from(RequestSource),
)
keys = st.builds(Key, texts, texts, st.integers(0, 1 << 32), st.integers(0, 9))
entries = st.builds(SavedEntry, key=keys, container_id=texts, grant=grants, amounts=amounts, extra_mems=cpusets)
states = st.builds(
    State,
    policy=texts,
    fingerprint=texts,
    entries=st.lists(entries, max_size=4).map(tuple),
    config=st.dictionaries(texts, texts, max_size=3),
    config_node=texts,
    pod_quotas=st.dictionaries(texts, numbers, max_size=3),
)
leaves: Any = st.none() | st.booleans() | numbers | st.floats() | texts | st.sampled_from(["1", "500m", "1Gi", "-1"])
documents = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["containers", "initContainers", "resources", "main", "requests", "limits", "cpu", "memory", "x.io/y"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(states)
def test_a_state_comes_back_as_it_was(state: State) -> None:
    """Whatever is in it."""
    assert decode(encode(state)) == state


@given(states, st.data())
def test_a_changed_byte_is_found_or_changes_nothing(state: State, data: st.DataObject) -> None:
    """No damage gives another state."""
    good = encode(state)
    at = data.draw(st.integers(0, len(good) - 1))
    bad = good[:at] + bytes([data.draw(st.integers(0, 255))]) + good[at + 1 :]
    try:
        found = decode(bad)
    except ValueError:
        return
    assert found == state


@given(states, st.integers(0, 1 << 16))
def test_half_a_file_is_none(state: State, size: int) -> None:
    """Wherever it ends; the last byte is a line break that nobody needs."""
    good = encode(state)
    part = good[: size % (len(good) - 1)]
    try:
        decode(part)
    except ValueError:
        return
    raise AssertionError("half a file was read")


@given(texts, grants, amounts)
def test_a_note_comes_back_as_it_was(policy: str, grant: Grant, asked: Amounts) -> None:
    """But for what the container has itself."""
    note = grant_note(policy, Request(key=Key("p", "c"), amounts=asked), grant)
    assert read_note(note) == GrantNote(policy, replace(grant, envs={}, command=None), asked)


@given(documents.map(json.dumps) | texts)
def test_any_other_text_is_no_note(text: str) -> None:
    """And no trouble."""
    assert read_note(text) is None


@given(st.integers(3, 256_000))
def test_shares_give_back_what_the_kubelet_made_them_of(milli: int) -> None:
    """Exactly."""
    assert milli_of(shares_of(milli)) == milli


@given(st.integers(10, 8_192_000), st.integers(1_000, 1_000_000))
def test_a_quota_gives_back_what_the_kubelet_made_it_of(milli: int, period: int) -> None:
    """Unless the kernel's least quota took its place."""
    quota = quota_of(milli, period)
    assert isinstance(quota, int)
    if quota > 1000:
        assert limit_of(quota, period) == milli


@given(st.integers(1, 1 << 50), st.integers(3, 999))
def test_a_memory_request_gives_the_score_it_was_made_of(capacity: int, score: int) -> None:
    """By the kubelet's formula."""
    memory = memory_of(score, capacity)
    assert memory is not None
    assert min(max(1000 - 1000 * memory // capacity, 3), 999) <= score
    if capacity >= 1000:
        assert min(max(1000 - 1000 * memory // capacity, 3), 999) == score


RESOURCES = st.builds(
    LinuxResources,
    cpu_shares=st.sampled_from([0, 2, 512, 1024, 2048]),
    cpu_quota=st.sampled_from([-1, 0, 50_000, 200_000]),
    cpu_period=st.sampled_from([0, 100_000]),
    memory_limit_in_bytes=st.sampled_from([-1, 0, 1 << 30, 1 << 31]),
    oom_score_adj=st.sampled_from([-997, 0, 3, 900, 999, 1000]),
)
PARENTS = st.sampled_from(["", "/kubepods/podx", "/kubepods/burstable/podx", "kubepods-besteffort-podx.slice"])


@given(RESOURCES, PARENTS, documents.map(json.dumps) | texts)
def test_no_annotation_gives_cpu_that_the_kubelet_did_not_ask_for(
    asked: LinuxResources, parent: str, text: str
) -> None:
    """Where the kubelet said something about CPU, and every text gives a request."""
    container = Container(id="", pod_id="p", name="main", resources=asked, requested=asked)
    made = make_request(container, Pod(id="p", cgroup_parent=parent, annotations={ANNOTATIONS[0]: text}))
    if asked.cpu_shares:
        own = made.request.pod_amounts is None  # else it may have the limit of its pod, and nothing of its own
        possible = {max(asked.cpu_shares, 2)} if own else {max(asked.cpu_shares, 2), 2}
        assert shares_of(made.request.milli) in possible
    for problem in made.problems:
        assert problem.startswith(f"annotation {ANNOTATIONS[0]}")
        assert problem.isprintable()


@given(st.sampled_from(KubeQos), RESOURCES, RESOURCES)
def test_the_same_update_twice_is_as_good_as_once(qos: KubeQos, before: LinuxResources, update: LinuxResources) -> None:
    """The second one changes nothing."""
    parent = {KubeQos.GUARANTEED: "", KubeQos.BURSTABLE: "burstable/", KubeQos.BEST_EFFORT: "besteffort/"}[qos]
    container = Container(id="", pod_id="p", name="main", resources=before)
    request = make_request(container, Pod(id="p", cgroup_parent=f"/kubepods/{parent}podx")).request
    once = replace(request, amounts=resize_amounts(request, update, before))
    assert resize_amounts(once, update, before.overlay(update)) is once.amounts
