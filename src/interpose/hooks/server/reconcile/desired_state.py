"""The desired values of all plugins for a pod with its containers, and for the cgroups above pods.

Pure, and the same for proxy and standalone mode. The result for a pod depends on the pod, its containers and the rules
only, so it can be kept as long as none of them is replaced.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from interpose.core.model.cgroup import Level
from interpose.core.model.pod import Container, Pod
from interpose.hooks.server.context import ContainerContext, GroupContext, PodContext
from interpose.hooks.server.evaluate import PluginChain, PluginFailure, PluginResults
from interpose.hooks.server.targets import ActuatorTarget, Conflict, DesiredValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerTarget:
    """A container as it was requested, and its target."""

    container: Container
    target: ActuatorTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTarget:
    """A pod with everything in it. A part without a cgroup has no target."""

    pod: Pod
    target: ActuatorTarget | None = None
    sandbox: ActuatorTarget | None = None
    members: tuple[ContainerTarget, ...] = ()

    @property
    def targets(self) -> Iterable[ActuatorTarget]:
        """The targets of the pod, its sandbox and its containers."""
        return (
            *(target for target in (self.target, self.sandbox) if target is not None),
            *(member.target for member in self.members),
        )


class GroupTarget(NamedTuple):
    """The node, a QoS class or a host application, and its target."""

    context: GroupContext
    target: ActuatorTarget


class PluginProblem(NamedTuple):
    """A plugin that failed for a target."""

    target: ActuatorTarget
    failure: PluginFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """Desired values, and the failures and conflicts of plugins."""

    values: tuple[DesiredValue, ...] = ()
    problems: tuple[PluginProblem, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


def desired_of_pod(hooks: PluginChain, subject: PodTarget) -> DesiredState:
    """Desired values of a pod, its sandbox container and its containers."""
    results_by_target: list[tuple[ActuatorTarget, PluginResults]] = []
    pod = subject.pod
    if subject.target is not None:
        results_by_target.append((subject.target, hooks.pod(PodContext(request=pod))))
    if subject.sandbox is not None:
        sandbox = Container(id=pod.id, pod_id=pod.id, cgroup_parent=pod.cgroup_parent)
        context = ContainerContext(pod=pod, request=sandbox, level=Level.SANDBOX)
        results_by_target.append((subject.sandbox, hooks.container(context)))
    results_by_target += [
        (member.target, hooks.container(ContainerContext(pod=pod, request=member.container)))
        for member in subject.members
    ]
    return _combine(results_by_target)


def desired_of_groups(hooks: PluginChain, groups: Sequence[GroupTarget]) -> DesiredState:
    """Desired values of the node, QoS classes and host applications."""
    return _combine([(group.target, hooks.group(group.context)) for group in groups])


def desired_values(target: ActuatorTarget, results: PluginResults) -> tuple[DesiredValue, ...]:
    """The desired values of one target."""
    return tuple(
        DesiredValue(target, parameter, wish.value, plugin, wish.why)
        for parameter, (plugin, wish) in results.values.items()
    )


def _combine(results_by_target: Sequence[tuple[ActuatorTarget, PluginResults]]) -> DesiredState:
    return DesiredState(
        values=tuple(value for target, results in results_by_target for value in desired_values(target, results)),
        problems=tuple(
            PluginProblem(target, failure) for target, results in results_by_target for failure in results.failures
        ),
        conflicts=tuple(
            Conflict(target=target, parameter=conflict.parameter, loser=conflict.loser, winner=conflict.winner)
            for target, results in results_by_target
            for conflict in results.conflicts
        ),
    )
