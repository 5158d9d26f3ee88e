"""What the demo found out: everything it remembers, whether that is as promised, and the text for the terminal.

Nothing here is printed, and nothing is taken on trust: each claim is held against what the runtime got.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from google.protobuf.message import Message

from interpose import __version__
from interpose.api import cri_pb2 as cri
from interpose.relay.interceptor import CLIENT, Direction
from interpose.relay.methods import METHODS
from interpose.rpc.status import Code
from interpose.testing.demop_old import (
    CRITICAL_CPUS,
    HOOKS,
    IDLE_SHARES,
    PLUGIN,
    SEEN,
    SHAPED,
    SHARED_CPUS,
    ZONE,
    Change,
    Recorder,
    Seen,
    Witness,
    changes_by_stage,
    hook_server,
)
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.hookserver import FakeHookServer


class Claim(NamedTuple):
    """A pod of the demo, what its container asks for, and what it must have in the end."""

    pod: str
    tier: str
    asked: int  # shares
    shares: int
    cpus: str


CLAIMS = (
    Claim("checkout", "critical", 2048, 2048, CRITICAL_CPUS),
    Claim("reports", "batch", 1024, IDLE_SHARES, SHARED_CPUS),
    Claim("blog", "standard", 512, 512, SHARED_CPUS),
)
_COUNTER = "interpose_cri_requests_total{"


@dataclass(slots=True)
class Node:
    """The parts of the demo that remember something, and what was found out with them."""

    runtime: FakeRuntime = field(default_factory=FakeRuntime)
    plugin: FakeHookServer = field(default_factory=hook_server)
    tap: Recorder = field(default_factory=lambda: Recorder(time.perf_counter))
    after_hooks: Witness = field(default_factory=Witness)
    after_policy: Witness = field(default_factory=Witness)
    statuses: list[cri.ContainerStatus] = field(default_factory=list)  # as the kubelet sees them
    metrics: str = ""
    hooks: str = ""

    def calls(self) -> list[Seen]:
        """What the kubelet called."""
        return [seen for seen in self.tap.calls.values() if seen.origin == CLIENT]

    def shaped(self) -> list[tuple[int, Seen]]:
        """Those of them that both witnesses saw, in the same order, with their numbers."""
        return [(number, seen) for number, seen in enumerate(self.calls(), 1) if seen.method.name in SHAPED]

    def changes(self) -> dict[int, list[Change]]:
        """What was changed by whom, by number of the call."""
        found = {}
        notes = zip(self.after_hooks.notes, self.after_policy.notes, strict=True)
        for (number, seen), (hooked, decided) in zip(self.shaped(), notes, strict=True):
            stages = [(PLUGIN, hooked.request), ("policy", decided.request), ("relay", seen.forwarded)]
            found[number] = changes_by_stage(seen, stages)
        return found

    def corrected(self) -> set[int]:
        """Numbers of the calls whose reply is not the runtime's."""
        pairs = zip(self.shaped(), self.after_hooks.notes, strict=True)
        return {n for (n, seen), note in pairs if seen.messages.get(Direction.REPLY, b"") != note.reply}


# -- checking


def wrong_container(claim: Claim, config: cri.ContainerConfig) -> list[str]:
    """Where the runtime's container differs from what the hook server and the policy promise."""
    resources = config.linux.resources
    zones = [env.value.decode() for env in config.envs if env.key == "NODE_ZONE"]
    facts = (
        ("cpuset_cpus", resources.cpuset_cpus, claim.cpus),
        ("cpu_shares", resources.cpu_shares, claim.shares),
        ("NODE_ZONE", zones, [ZONE]),
    )
    return _differing(claim, facts)


def wrong_status(claim: Claim, status: cri.ContainerStatus) -> list[str]:
    """Where the kubelet sees something else than it asked for."""
    shown = status.resources.linux
    return _differing(claim, (("status cpu_shares", shown.cpu_shares, claim.asked), ("cpuset", shown.cpuset_cpus, "")))


def _differing(claim: Claim, facts: Sequence[tuple[str, object, object]]) -> list[str]:
    return [f"{claim.pod}: {name} is {found!r}, not {wanted!r}" for name, found, wanted in facts if found != wanted]


def wrong_traffic(node: Node) -> list[str]:
    """Where what the tap saw differs from what the runtime got."""
    problems = []
    seen = list(node.tap.calls.values())
    saw = Counter((one.method.name, _same(getattr(cri, one.method.request), one.forwarded)) for one in seen)
    got = Counter((name, _same(type(one), one.SerializeToString())) for name, one in node.runtime.requests)
    for (method, _), count in (saw - got).items():
        problems.append(f"{method}: the tap saw {count} that the runtime did not get")
    for (method, _), count in (got - saw).items():
        problems.append(f"{method}: the runtime got {count} that the tap did not see")
    problems += [f"{one.method.name} ended with {one.code}" for one in seen if one.code != Code.OK]
    for number, found in node.changes().items():
        method = node.calls()[number - 1].method.name
        if bool(found) != (method in SHAPED[:2]):
            problems.append(f"{method} should {'not ' if found else ''}have been changed")
    marked = [request.config.annotations.get(SEEN) for request in node.runtime.requests_of("RunPodSandbox")]
    return problems + ([] if marked == ["yes"] * len(CLAIMS) else [f"annotations {SEEN} are {marked}"])


def _same(kind: type[Message], data: bytes) -> bytes:
    """The same bytes for the same content: maps have no order."""
    return kind.FromString(data).SerializeToString(deterministic=True)


def wrong_hooks(plugin: FakeHookServer) -> list[str]:
    """Where the hook server was not asked once per pod at each hook point."""
    asked = Counter(call.point for call in plugin.calls)
    return [f"{point}: asked {asked[point]} times" for point in HOOKS if asked[point] != len(CLAIMS)]


def wrong_metrics(text: str, sent: Mapping[str, int]) -> list[str]:
    """Where /metrics would not say what was sent."""
    wanted = set()
    for name, count in sent.items():
        service = f"runtime.v1.{METHODS[name].service}"
        wanted.add(f'{_COUNTER}code="OK",method="{name}",service="{service}"}} {float(count)}')
    return [f"metrics differ: {line}" for line in sorted(set(counters(text)) ^ wanted)]


def counters(text: str) -> list[str]:
    """The lines of the exposition that count calls."""
    return [line for line in text.splitlines() if line.startswith(_COUNTER)]


# -- showing


def report(node: Node) -> Iterator[str]:
    """The text for the terminal."""
    changes, corrected = node.changes(), node.corrected()
    yield f"interpose {__version__}: three pods through the relay\n"
    yield "  kubelet --> relay [hook servers, policy; a tap looks on] --> runtime (a fake one)"
    yield f"                     '--> {PLUGIN}, a hook server\n"
    yield "What passed (time as the relay saw it, hooks and runtime included):"
    for number, call in enumerate(node.calls(), 1):
        code = "-" if call.code is None else Code(call.code).name
        done = _done(changes.get(number, []), number in corrected)
        yield f"  {number:3}  {call.method.name:<18}{code:<4}{(call.ended - call.began) * 1000:7.2f} ms   {done}"
    own = Counter(seen.method.name for seen in node.tap.calls.values() if seen.origin != CLIENT)
    yield f"  and of the relay's own accord: {', '.join(f'{name} {count}' for name, count in own.items())}"
    yield "\nWhat was changed on the way, and by whom (before -> after):"
    for number, found in changes.items():
        for change in found:
            before, after = change.before or "(none)", change.after or "(none)"
            yield f"  {number:3}  {change.by:<8}{change.path:<44}{before} -> {after}"
    yield "\nWhat the containers have, and what the kubelet sees of it:"
    for claim, status in zip(CLAIMS, node.statuses, strict=True):
        shown = status.resources.linux
        yield f"  {claim.pod:<10}{_given(claim.shares, claim.cpus):<26}{_given(shown.cpu_shares, shown.cpuset_cpus)}"
    yield f"\nWhat `interpose hooks list` says:\n{_indented(node.hooks)}"
    yield f"\nWhat /metrics says:\n{_indented(chr(10).join(counters(node.metrics)))}"


def _done(found: Sequence[Change], corrected: bool) -> str:
    by = ", ".join(dict.fromkeys(change.by for change in found))
    return f"changed by {by}" if by else "reply shows what was asked for" if corrected else "passed untouched"


def _given(shares: int, cpus: str) -> str:
    return f"{shares} shares, {f'CPUs {cpus}' if cpus else 'any CPU'}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
