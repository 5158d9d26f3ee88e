"""Verdicts about a pod and all that is in it become wants with their targets."""

from typing import ClassVar

from interpose.core.model.cgroup import Level, Parameter
from interpose.core.model.pod import Container, Pod
from interpose.hooks.server.context import ContainerContext, GroupContext, PodContext
from interpose.hooks.server.evaluate import PluginChain
from interpose.hooks.server.node.rules import PluginRules, make_rules
from interpose.hooks.server.plugin import NodeInputs, Plugin
from interpose.hooks.server.reconcile.desired_state import (
    ContainerTarget,
    DesiredState,
    GroupTarget,
    PodTarget,
    desired_of_groups,
    desired_of_pod,
)
from interpose.hooks.server.targets import ActuatorTarget

POD = Pod(id="s", name="web", namespace="shop", uid="u", cgroup_parent="/kubepods/podu")
ALL = frozenset((Parameter.CPU_SHARES, Parameter.CPU_BVT))


class Toy(Plugin[int]):
    """Wants its rule as shares of everything, and says about what it was asked."""

    name: ClassVar[str] = "Toy"
    serves: ClassVar = dict.fromkeys(Level, ALL)

    def rule(self, node: NodeInputs, previous: int | None) -> int:
        """Always seven."""
        return 7

    def group(self, rule: int, context: GroupContext) -> None:
        """By its name."""
        context.response.set(Parameter.CPU_BVT, rule, context.name)

    def pod(self, rule: int, context: PodContext) -> None:
        """By its name."""
        context.response.set(Parameter.CPU_SHARES, rule, context.request.name)

    def container(self, rule: int, context: ContainerContext) -> None:
        """By its id, with the level in the reason."""
        if context.request.name == "bad":
            raise ValueError("bad container")
        context.response.set(Parameter.CPU_SHARES, rule, f"{context.level} {context.request.id}")


class Rival(Toy):
    """Wants something else of pods."""

    name: ClassVar[str] = "Rival"
    serves: ClassVar = {Level.POD: ALL}

    def pod(self, rule: int, context: PodContext) -> None:
        """One more."""
        context.response.set(Parameter.CPU_SHARES, rule + 1, "more")


def target(level: Level, key: str) -> ActuatorTarget:
    """A target with a name."""
    return ActuatorTarget(level=level, key=key, directory=key, name=f"{level} {key}")


def hooks(*plugins: Plugin[int]) -> PluginChain:
    """Hooks with the rules of these plugins."""
    return PluginChain(plugins, make_rules(plugins, NodeInputs(), PluginRules()))


def shown(desire: DesiredState) -> list[tuple[str, int | str | object, str, str]]:
    """Wants in short."""
    return [(one.target.key, one.value, one.plugin, one.reason) for one in desire.values]


def test_a_pod_its_sandbox_and_its_containers_are_asked_about() -> None:
    """Each with its own target."""
    subject = PodTarget(
        pod=POD,
        target=target(Level.POD, "d"),
        sandbox=target(Level.SANDBOX, "s"),
        members=(ContainerTarget(container=Container(id="c1", name="app"), target=target(Level.CONTAINER, "c1")),),
    )
    desire = desired_of_pod(hooks(Toy()), subject)
    assert shown(desire) == [
        ("d", 7, "Toy", "web"),
        ("s", 7, "Toy", "sandbox s"),
        ("c1", 7, "Toy", "container c1"),
    ]
    assert [one.key for one in subject.targets] == ["d", "s", "c1"]


def test_what_has_no_cgroup_is_not_asked_about() -> None:
    """A pod that was not run yet."""
    assert desired_of_pod(hooks(Toy()), PodTarget(pod=POD)) == DesiredState()
    assert list(PodTarget(pod=POD).targets) == []


def test_failures_and_conflicts_name_their_target() -> None:
    """One bad container is not the others' trouble."""
    members = tuple(
        ContainerTarget(container=Container(id=name, name=name), target=target(Level.CONTAINER, name))
        for name in ("bad", "ok")
    )
    desire = desired_of_pod(hooks(Toy(), Rival()), PodTarget(pod=POD, target=target(Level.POD, "d"), members=members))
    assert [(one.target.key, one.failure.plugin, one.failure.text) for one in desire.problems] == [
        ("bad", "Toy", "bad container")
    ]
    assert [(one.target.key, one.loser, one.winner) for one in desire.conflicts] == [("d", "Toy", "Rival")]
    assert shown(desire) == [("d", 8, "Rival", "more"), ("ok", 7, "Toy", "container ok")]


def test_groups_above_pods() -> None:
    """The node, QoS directories, host applications."""
    group = GroupTarget(GroupContext(level=Level.QOS, name="BestEffort"), target(Level.QOS, "kubepods/besteffort"))
    assert shown(desired_of_groups(hooks(Toy()), [group])) == [("kubepods/besteffort", 7, "Toy", "BestEffort")]
