"""Rounds on a kernel with its rules: whatever the pods and the rules are, a round settles everything and can be undone.

Every example is a node with a runtime on a socket, a journal on disk and cgroups in memory.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interpose.core.model.cgroup import Parameter
from interpose.testing.qospods import be_pod, ls_pod, lsr_pod
from interpose.testing.runtime.state import FakeSandbox
from tests.support.hooks.node import HookNode, hook_node

# The nightly run tries a thousand nodes per test.
pytestmark = pytest.mark.timeout(1800)
VERSIONS = pytest.mark.parametrize("version", [1, 2])
KINDS: Mapping[str, Callable[..., FakeSandbox]] = {"be": be_pod, "ls": ls_pod, "lsr": lsr_pod}
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that can be made any number of times, on any node."""

    kind: str
    more: Mapping[str, Any]

    def add(self, node: HookNode, name: str) -> FakeSandbox:
        """Let it run."""
        return KINDS[self.kind](node.node, name, **self.more)


CONTAINERS = st.sampled_from([("main",), ("main", "side"), ("a", "b", "c")])
BATCH_PODS = st.fixed_dictionaries(
    {
        "batch_cpu": st.integers(1, 9000),
        "batch_memory": st.integers(MIB, 64 * MIB),
        "limits": st.booleans(),
        "containers": CONTAINERS,
    }
)
LS_PODS = st.fixed_dictionaries(
    {
        "cpu_request": st.integers(1, 4000),
        "cpu_limit": st.one_of(st.just(0), st.integers(10, 8000)),
        "memory_limit": st.sampled_from([0, 512 * MIB]),
        "containers": CONTAINERS,
    }
)
# Disjoint for most, and never all CPUs: somebody has to be able to share.
LSR_PODS = st.fixed_dictionaries({"cpuset": st.sampled_from(["2-3", "0", "4-5", "1,6"])})
AMOUNTS: Mapping[str, st.SearchStrategy[dict[str, Any]]] = {"be": BATCH_PODS, "ls": LS_PODS, "lsr": LSR_PODS}
UNMANAGED = {"interpose/managed": "false"}


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """A pod of any kind; some want to be left alone."""
    kind = draw(st.sampled_from(list(KINDS)))
    more: dict[str, Any] = draw(AMOUNTS[kind])
    return Pod(kind=kind, more={**more, "labels": draw(st.sampled_from([{}, {}, {}, UNMANAGED]))})


RULES = st.fixed_dictionaries(
    {
        "identity": st.booleans(),
        "cfs_quota": st.booleans(),
        "ratio": st.sampled_from([None, 1.0, 1.2, 2.5]),
    }
)
FEATURES = st.fixed_dictionaries(
    {"bvt": st.booleans(), "group_identity_fallback": st.sampled_from(["none", "idle", "shares"])}
)
SOME_PODS = st.lists(pods(), max_size=5)


@contextmanager
def folder() -> Iterator[Path]:
    """For one example; short, since a socket is in it."""
    place = Path(tempfile.mkdtemp(prefix="ip-"))
    try:
        yield place
    finally:
        shutil.rmtree(place)


def on_node(version: int, features: Mapping[str, Any], work: Callable[[HookNode], Awaitable[None]]) -> None:
    """Do something on a node of its own."""

    async def main(place: Path) -> None:
        async with hook_node(place, version, cpu_normalization=True, **features) as node:
            await work(node)
            assert node.kernel.refused == []

    with folder() as place, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(place))


def named(node: HookNode) -> dict[str, str]:
    """All files, with the names of containers in place of their ids, which depend on who came first."""
    runtime = node.node.runtime
    names = {one: runtime.sandboxes[one].config.metadata.name for one in runtime.sandboxes}
    names |= {one.id: one.config.metadata.name for one in runtime.containers.values()}
    return {
        "/".join(names.get(part, part) for part in path.split("/")): text
        for path, text in node.files().items()
        if not path.endswith(("/cgroup.procs", "/tasks", "/cgroup.threads"))
    }


# Each example is a whole node with several rounds; the deep profile has as many as it wants.
FEW = settings(max_examples=300 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 15)


@VERSIONS
@FEW
@given(some=SOME_PODS, rules=RULES, features=FEATURES)
@example(
    some=[
        Pod(
            kind="be",
            more={"batch_cpu": 1, "batch_memory": 1 << 20, "limits": False, "containers": ("main",), "labels": {}},
        )
    ],
    rules={"identity": True, "cfs_quota": False, "ratio": None},
    features={"bvt": False, "group_identity_fallback": "idle"},
)
def test_second_round_does_nothing(
    version: int, some: Sequence[Pod], rules: Mapping[str, Any], features: Mapping[str, Any]
) -> None:
    """All is as wanted after one round, without a value that the kernel refused; another one writes nothing.

    Shares of an idle pod wait: the kernel does not take them.
    """

    async def work(node: HookNode) -> None:
        for number, pod in enumerate(some):
            pod.add(node, f"pod-{number}")
        node.slo(**rules)
        first = await node.round()
        assert (first.errors, first.desired_state.problems) == ([], ())
        writes, updates = len(node.kernel.writes), node.parts.updates.sent
        second = await node.round(detail=True)
        held = [item for item in second.items if item.action.value == "held"]
        assert all(item.parameter is Parameter.CPU_SHARES and "while cpu.idle is on" in item.note for item in held)
        assert {item.action.value for item in second.items} <= {"keep", "held"}
        assert (second.written, second.unchanged) == (0, second.wanted - len(held))
        assert (len(node.kernel.writes), node.parts.updates.sent) == (writes, updates)

    on_node(version, features, work)


@VERSIONS
@FEW
@given(some=SOME_PODS, rules=st.lists(RULES, min_size=1, max_size=3), features=FEATURES)
def test_switching_off_gives_back_what_was(
    version: int, some: Sequence[Pod], rules: Sequence[Mapping[str, Any]], features: Mapping[str, Any]
) -> None:
    """After any rules one after the other every file is as before the first of them, and the journal is empty."""

    async def work(node: HookNode) -> None:
        for number, pod in enumerate(some):
            pod.add(node, f"pod-{number}")
        before = node.files()
        for rule in rules:
            node.slo(**rule)
            await node.round()
        assert (await node.off()).errors == []
        assert node.files() == before
        assert len(node.parts.journal) == 0

    on_node(version, features, work)


@VERSIONS
@FEW
@given(some=SOME_PODS, order=st.randoms(use_true_random=False), rules=RULES, features=FEATURES)
def test_order_of_pods_does_not_matter(
    version: int, some: Sequence[Pod], order: Any, rules: Mapping[str, Any], features: Mapping[str, Any]
) -> None:
    """Whoever comes first, with a round in between or not: in the end everybody has the same."""
    every = list(enumerate(some))
    results = []

    async def work(node: HookNode, turns: Sequence[tuple[int, Pod]], *, each: bool) -> None:
        node.slo(**rules)
        for number, pod in turns:
            pod.add(node, f"pod-{number}")
            if each:
                await node.round()
        await node.round()
        results.append(named(node))

    on_node(version, features, lambda node: work(node, every, each=False))
    shuffled = order.sample(every, len(every))
    on_node(version, features, lambda node: work(node, shuffled, each=True))
    assert results[0] == results[1]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), pods()),
        st.tuples(st.just("remove"), st.integers(0, 9)),
        st.tuples(st.just("rules"), RULES),
        st.tuples(st.just("restart"), st.none()),
        st.tuples(st.just("off"), st.none()),
        st.tuples(st.just("round"), st.none()),
    ),
    max_size=12,
)


@VERSIONS
@FEW
@given(steps=STEPS, features=FEATURES)
def test_whatever_happens_switching_off_leaves_no_trace(
    version: int, steps: Sequence[tuple[str, Any]], features: Mapping[str, Any]
) -> None:
    """Pods that come and go, rules that change, restarts: in the end the node is as if nobody had ever been there."""
    results = []

    async def work(node: HookNode, *, ours: bool) -> None:
        alive: list[FakeSandbox] = []
        for number, (what, about) in enumerate(steps):
            if what == "add":
                alive.append(about.add(node, f"pod-{number}"))
            elif what == "remove" and alive:
                node.node.runtime.state.remove_sandbox(alive.pop(about % len(alive)))
            elif ours and what == "rules":
                node.slo(**about)
            elif ours and what == "restart":
                await node.start()
            elif ours and what == "off":
                await node.off()
            if ours and what != "restart":
                assert (await node.round()).errors == []
        if ours:
            await node.off()
            assert len(node.parts.journal) == 0
        results.append(named(node))

    on_node(version, features, lambda node: work(node, ours=True))
    on_node(version, features, lambda node: work(node, ours=False))
    assert results[0] == results[1]
