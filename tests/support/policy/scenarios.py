"""Scenarios of policies as data: a machine, a policy, what happens one after the other, and what shall come of it.

A scenario is a YAML file; `play` takes its steps and tells what differs from what the file says. Everything goes
through the ledger of a relay, so containers without a place, restarts and CPUs that go offline are as on a node. What a
step says nothing about is not looked at; that nobody has CPUs of somebody else's own is looked at after every step.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from interpose.config.documents.amounts import parse_cpu_amount
from interpose.config.documents.fields import Choice, FieldGroup, FieldReader, Items, Number, Report, Text, Texts
from interpose.config.documents.policy_options import read_options
from interpose.config.documents.yaml import DocumentNode, parse_document, read_text
from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.quantity import milli, parse_quantity, whole
from interpose.core.policy.api import Policy, Setup
from interpose.core.policy.decision import Decision
from interpose.core.policy.registry import make
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.static_pools.policy import EXCLUSIVE_CORES
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError
from interpose.resmgr.allocations import AllocationCandidate, Allocations
from tests.support.policy.machines import machine

UNBOUND: Final = "unbound"  # in place of CPUs: none are written
_MAX_BYTES: Final = 1 << 16


def unplugged(topology: Topology, gone: CpuSet) -> Topology:
    """The machine after CPUs went offline. As in the kernel, cores and caches go by the lowest CPU that is left."""
    cpus = [cpu for cpu in topology.cpus if cpu.id not in gone]
    firsts: dict[tuple[str, int], int] = {}
    for cpu in cpus:
        for name in ("core", "l2", "l3"):
            firsts.setdefault((name, getattr(cpu, name)), cpu.id)
    firsts |= {(name, -1): -1 for name in ("l2", "l3")}
    return replace(
        topology,
        cpus=tuple(
            replace(cpu, core=firsts["core", cpu.core], l2=firsts["l2", cpu.l2], l3=firsts["l3", cpu.l3])
            for cpu in cpus
        ),
        nodes=tuple(replace(node, cpus=node.cpus - gone) for node in topology.nodes),
        caches=tuple(replace(cache, cpus=cache.cpus - gone) for cache in topology.caches if cache.cpus - gone),
        offline=topology.offline | (gone & topology.online),
        isolated=topology.isolated - gone,
    )


def admit(allocations: Allocations, coming: Sequence[AllocationCandidate]) -> None:
    """All that run, in the order of a relay: who can keep CPUs of its own, who has to leave them, who has none."""
    moving = [one for one in coming if one.held is not None and one.held.exclusive and allocations.keep(one) is None]
    for one in (*moving, *(one for one in coming if one.held is None or not one.held.exclusive)):
        allocations.admit(one)


# -- the file


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happens, and what is expected after it."""

    line: int
    does: str  # create, resize, remove, restart, offline
    subject: str  # a container, or CPUs
    about: Mapping[str, Any]  # what is said about the container
    expected: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A file."""

    topology: Topology
    policy: str
    available: CpuSet | None = None
    reserved: CpuSet | int | None = None
    options: object = None
    steps: tuple[Step, ...] = field(default=())
    fails: str = ""  # part of what making the policy must be refused with


@dataclass(frozen=True, slots=True)
class _Scalar:
    """A number or text, as text."""

    read_text: Callable[[str], Any]

    def read(self, node: DocumentNode, key: str, report: Report) -> Any:
        """What it is read to."""
        if node.tag not in ("str", "int", "float"):
            report.expected("a number or text", "str", node, key)
            return None
        try:
            return self.read_text(node.text)
        except (ValueError, ConfigError) as error:
            report.say(node, key, str(error))
            return None


@dataclass(frozen=True, slots=True)
class _PerName:
    """Values of one kind by name."""

    kind: FieldReader

    def read(self, node: DocumentNode, key: str, report: Report) -> Mapping[str, Any] | None:
        """The values."""
        if node.tag != "map":
            report.expected("a group of keys", "map", node, key)
            return None
        return {name: self.kind.read(child, f"{key}.{name}", report) for name, child in node.entries}


@dataclass(frozen=True, slots=True)
class _AsNode:
    """To be read later, when more is known."""

    def read(self, node: DocumentNode, key: str, report: Report) -> DocumentNode:
        """The node."""
        return node


@dataclass(frozen=True, slots=True)
class _Steps:
    """The list of steps."""

    def read(self, node: DocumentNode, key: str, report: Report) -> tuple[Step, ...] | None:
        """The steps with their lines."""
        if node.tag != "list":
            report.expected("a list of steps", "list", node, key)
            return None
        found = []
        for index, item in enumerate(node.items):
            values = _STEP.read(item, f"{key}[{index}]", report)
            if values is not None:
                does = [name for name in _DOES if name in values]
                if len(does) != 1:
                    report.say(item, f"{key}[{index}]", f"expected one of {', '.join(_DOES)}, found {len(does)}")
                    continue
                about = {name: value for name, value in values.items() if name in _ABOUT}
                expected = {name: value for name, value in values.items() if name in _EXPECTED}
                subject = str(values[does[0]])
                found.append(Step(line=item.line or 0, does=does[0], subject=subject, about=about, expected=expected))
        return tuple(found)


def _cpus(text: str) -> str:
    """CPUs in the one way to write them."""
    return text if text == UNBOUND else str(CpuSet.parse(text))


def _amount(text: str) -> CpuSet | int | None:
    """Constraints as on the command line."""
    amount = parse_cpu_amount(text, "cpu")
    return amount.cpus if amount.cpus is not None else amount.milli


_WORDS: Final = Items(Text(), tuple)
_DOES: Final[Mapping[str, FieldReader]] = {
    "create": Text(),
    "resize": Text(),
    "remove": Text(),
    "restart": Choice({"relay": "relay"}),
    "offline": _Scalar(_cpus),
}
_ABOUT: Final[Mapping[str, FieldReader]] = {
    "cpu": _Scalar(lambda text: milli(parse_quantity(text))),
    "limit": _Scalar(lambda text: milli(parse_quantity(text))),
    "memory": _Scalar(lambda text: whole(parse_quantity(text))),
    "qos": Choice({one.value.lower(): one for one in KubeQos}),
    "pod": Text(),
    "namespace": Text(),
    "annotations": Texts(),
    "labels": Texts(),
    "env": Texts(),
    "command": _WORDS,
    "args": _WORDS,
    "lists": Number(0, 1000),
}
_EXPECTED: Final[Mapping[str, FieldReader]] = {
    "cpus": _PerName(_Scalar(_cpus)),
    "mems": _PerName(_Scalar(_cpus)),
    "shares": _PerName(Number(0, 1 << 20)),
    "pools": _PerName(_Scalar(_cpus)),
    "told": Texts(),
    "runs": _WORDS,
    "refused": Text(),
    "reason": Text(),
    "changed": _WORDS,
    "without-place": _WORDS,
}
_STEP: Final = FieldGroup({**_DOES, **_ABOUT, **_EXPECTED})
_FILE: Final = FieldGroup(
    {
        "machine": Text(),
        "policy": Text(),
        "available": _Scalar(_amount),
        "reserved": _Scalar(_amount),
        "options": _AsNode(),
        "steps": _Steps(),
        "fails": Text(),
    },
    required=("machine", "policy"),
)


def read_scenario(path: Path) -> Scenario:
    """The scenario of a file; ConfigError with everything that is wrong."""
    where = f"file {path.name}"
    report = Report(where)
    values = _FILE.read(parse_document(read_text(str(path), _MAX_BYTES), where), "", report)
    report.settle()
    values["topology"] = machine(values.pop("machine"))
    if "options" in values:
        values["options"] = read_options(values["policy"], values["options"], "options", report)
        report.settle()
    return Scenario(**values)


# -- what happens


class _Stage:
    """A node while a scenario is played."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._topology = scenario.topology
        self.allocations = Allocations(self._policy(), lambda: 0.0)
        self.decision: Decision | None = None
        self._pods: dict[str, str] = {}  # by container, of those that share one

    def key(self, name: str) -> Key:
        """The key of a container; of one that names no pod it is in one of its own."""
        return Key(self._pods.get(name, f"pod-{name}"), name)

    def take(self, step: Step) -> None:
        """What the step says."""
        self.decision = None
        getattr(self, f"_{step.does}")(step)

    def _policy(self) -> Policy:
        one = self._scenario
        setup = Setup(topology=self._topology, available=one.available, reserved=one.reserved)
        return make(one.policy, setup, one.options)

    def _create(self, step: Step) -> None:
        if "pod" in step.about:
            self._pods[step.subject] = step.about["pod"]
        self.decision = self.allocations.allocate(_request(step, self.key(step.subject)))

    def _resize(self, step: Step) -> None:
        request = self.allocations.by_key[self.key(step.subject)].request
        amounts = replace(request.amounts, milli=step.about["cpu"])
        self.decision = self.allocations.resize(replace(request, amounts=amounts))

    def _remove(self, step: Step) -> None:
        self.decision = self.allocations.release(self.key(step.subject))

    def _restart(self, _step: Step) -> None:
        old = self.allocations
        grants = old.policy.state.grants
        self.allocations = Allocations(self._policy(), lambda: 0.0)
        admit(
            self.allocations,
            [
                AllocationCandidate(request=held.request, id=key.name, held=grants.get(key))
                for key, held in old.by_key.items()
            ],
        )

    def _offline(self, step: Step) -> None:
        self._topology = unplugged(self._topology, CpuSet.parse(step.subject))
        self._restart(step)


def _request(step: Step, key: Key) -> Request:
    about = step.about
    extended = {EXCLUSIVE_CORES: about["lists"]} if "lists" in about else {}
    return Request(
        key=key,
        namespace=about.get("namespace", "default"),
        pod=about.get("pod", step.subject),
        qos=about.get("qos", KubeQos.GUARANTEED),
        amounts=Amounts(
            milli=about.get("cpu", 0),
            limit_milli=about.get("limit"),
            memory=about.get("memory"),
            extended=extended,
        ),
        pod_annotations=about.get("annotations", {}),
        pod_labels=about.get("labels", {}),
        envs=about.get("env", {}),
        command=about.get("command", ()),
        args=about.get("args", ()),
    )


# -- what came of it


def play(scenario: Scenario) -> list[str]:
    """Take all steps; what is not as expected, with the line of the step."""
    try:
        stage = _Stage(scenario)
    except ConfigError as error:
        told = "; ".join(error.problems)
        return [] if scenario.fails and scenario.fails in told else [f"the policy cannot be made: {told}"]
    if scenario.fails:
        return [f"the policy should be refused with {scenario.fails!r}"]
    found = []
    for step in scenario.steps:
        stage.take(step)
        title = f"line {step.line}, {step.does} {step.subject}"
        found += [f"{title}: {text}" for text in (*_differences(stage, step), *_conflicts(stage))]
    return found


def _differences(stage: _Stage, step: Step) -> Iterator[str]:
    decision = stage.decision
    refusal = decision.refusal if decision is not None else None
    wanted = step.expected.get("refused")
    if wanted is None and refusal is not None:
        yield f"refused with {refusal.message!r}"
    elif wanted is not None and (refusal is None or wanted not in refusal.message):
        yield f"should be refused with {wanted!r}, is: {refusal.message if refusal else 'granted'}"
    for what, expected in step.expected.items():
        if what in _LOOKS:
            found = _LOOKS[what](stage, step, expected)
            if found != expected:
                yield f"{what} should be {expected}, are {found}"


def _conflicts(stage: _Stage) -> Iterator[str]:
    """Who has CPUs that somebody else has alone."""
    allocations = stage.allocations
    grants = allocations.policy.state.grants
    for owner, grant in grants.items():
        for key in allocations.by_key:
            if key != owner and (both := (allocations.assignment(key).cpus or EMPTY) & grant.exclusive):
                yield f"{key.name} has CPUs {both} that are {owner.name}'s own"


def _assigned(name: str) -> Callable[[_Stage, Step, Any], Any]:
    def look(stage: _Stage, _step: Step, expected: Any) -> Any:
        return {one: _plain(getattr(stage.allocations.assignment(stage.key(one)), name)) for one in expected}

    return look


def _plain(value: Any) -> Any:
    if value is None:
        return UNBOUND
    return str(value) if isinstance(value, CpuSet) else value


def _pools(stage: _Stage, _step: Step, expected: Any) -> Any:
    return {name: str(stage.allocations.policy.pools().get(name, "no such pool")) for name in expected}


def _told(stage: _Stage, step: Step, expected: Any) -> Any:
    envs = stage.allocations.policy.state.grants[stage.key(step.subject)].envs
    return {name: envs.get(name) for name in expected}


def _runs(stage: _Stage, step: Step, _expected: Any) -> Any:
    return stage.allocations.policy.state.grants[stage.key(step.subject)].command


def _reason(stage: _Stage, _step: Step, expected: str) -> str:
    reason = stage.decision.reason if stage.decision is not None else ""
    return expected if expected in reason else reason


def _changed(stage: _Stage, _step: Step, _expected: Any) -> Any:
    return tuple(key.name for key in stage.decision.changed) if stage.decision is not None else ()


def _without_place(stage: _Stage, _step: Step, _expected: Any) -> Any:
    return tuple(key.name for key in stage.allocations.without_place)


_LOOKS: Final[Mapping[str, Callable[[_Stage, Step, Any], Any]]] = {
    "cpus": _assigned("cpus"),
    "mems": _assigned("mems"),
    "shares": _assigned("shares"),
    "pools": _pools,
    "told": _told,
    "runs": _runs,
    "reason": _reason,
    "changed": _changed,
    "without-place": _without_place,
}
