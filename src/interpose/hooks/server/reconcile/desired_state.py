"""What all plugins want of a pod with everything in it, or of the groups above pods: verdicts become wants.

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
    """A container of a pod as it was asked for, and where it is."""

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
        """Everything values can be set on."""
        return (*(one for one in (self.target, self.sandbox) if one is not None), *(one.target for one in self.members))


class GroupTarget(NamedTuple):
    """Something above pods, and where it is."""

    context: GroupContext
    target: ActuatorTarget


class PluginProblem(NamedTuple):
    """A plugin that failed, and what it was asked about."""

    target: ActuatorTarget
    failure: PluginFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """What shall be, and what went wrong while finding out."""

    wants: tuple[DesiredValue, ...] = ()
    troubles: tuple[PluginProblem, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


def of_pod(hooks: PluginChain, subject: PodTarget) -> DesiredState:
    """What plugins want of a pod, its sandbox container and its containers."""
    verdicts: list[tuple[ActuatorTarget, PluginResults]] = []
    pod = subject.pod
    if subject.target is not None:
        verdicts.append((subject.target, hooks.pod(PodContext(request=pod))))
    if subject.sandbox is not None:
        holder = Container(id=pod.id, pod_id=pod.id, cgroup_parent=pod.cgroup_parent)
        context = ContainerContext(pod=pod, request=holder, level=Level.SANDBOX)
        verdicts.append((subject.sandbox, hooks.container(context)))
    verdicts += [
        (member.target, hooks.container(ContainerContext(pod=pod, request=member.container)))
        for member in subject.members
    ]
    return _gathered(verdicts)


def of_groups(hooks: PluginChain, groups: Sequence[GroupTarget]) -> DesiredState:
    """What plugins want of the node, the directories of QoS classes and host applications."""
    return _gathered([(group.target, hooks.group(group.context)) for group in groups])


def wants_of(target: ActuatorTarget, verdict: PluginResults) -> tuple[DesiredValue, ...]:
    """A verdict about one target."""
    return tuple(
        DesiredValue(target, parameter, wish.value, plugin, wish.why)
        for parameter, (plugin, wish) in verdict.wishes.items()
    )


def _gathered(verdicts: Sequence[tuple[ActuatorTarget, PluginResults]]) -> DesiredState:
    return DesiredState(
        wants=tuple(want for target, verdict in verdicts for want in wants_of(target, verdict)),
        troubles=tuple(PluginProblem(target, one) for target, verdict in verdicts for one in verdict.failures),
        conflicts=tuple(
            Conflict(target=target, parameter=one.parameter, loser=one.loser, winner=one.winner)
            for target, verdict in verdicts
            for one in verdict.quarrels
        ),
    )
