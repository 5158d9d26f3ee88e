"""Runs a policy over pods that do not exist: what each container would be given, why, and what is left.

Nothing here is special to a simulation but the steps: the policy, its decisions and their records are those of a node.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from interpose.core.policy.api import Policy
from interpose.core.policy.decision import Action, Decision, assignment_record, decision_record
from interpose.core.policy.request import Key, Request


class Role(StrEnum):
    """When a container of a pod runs."""

    INIT = "init"  # ends before the next one starts
    SIDECAR = "sidecar"  # starts in line with the init containers and stays
    MAIN = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A container of a pod."""

    request: Request
    role: Role = Role.MAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPod:
    """A pod, its containers in the order in which they start."""

    namespace: str
    name: str
    members: tuple[Member, ...]

    @property
    def title(self) -> str:
        """The display name of the pod: namespace/pod."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationStep:
    """One decision to make: a container is created (allocate), changed (resize) or gone (release)."""

    action: Action
    request: Request


def start_steps(pod: PlannedPod) -> Iterator[SimulationStep]:
    """The decisions that are made when a pod starts."""
    for member in pod.members:
        yield SimulationStep(action=Action.ALLOCATE, request=member.request)
        if member.role is Role.INIT:
            yield SimulationStep(action=Action.RELEASE, request=member.request)


def removal_steps(pod: PlannedPod) -> Iterator[SimulationStep]:
    """The decisions that are made when a pod is removed."""
    for member in pod.members:
        if member.role is not Role.INIT:
            yield SimulationStep(action=Action.RELEASE, request=member.request)


def simulate(policy: Policy, steps: Iterable[SimulationStep]) -> list[dict[str, Any]]:
    """Make the decisions in order.

    One record for each. A container that was refused holds nothing, and is not released.
    """
    titles: dict[Key, str] = {}
    records = []
    for step in steps:
        key = step.request.key
        if step.action is Action.RELEASE and key not in policy.state.grants:
            continue
        titles[key] = step.request.title
        decision = _decide(policy, step)
        records.append(decision_record(decision, step.request, policy.state.assignment(key), titles))
    return records


def list_holdings(policy: Policy, requests: Sequence[Request]) -> list[dict[str, Any]]:
    """What the containers with a grant have in the end, in the order in which they were created."""
    by_key: Mapping[Key, Request] = {request.key: request for request in requests}
    return [
        {
            "container": by_key[key].title,
            "qos": by_key[key].qos.value,
            "cpu_milli": by_key[key].milli,
            "exclusive": str(grant.exclusive),
            "pools": list(grant.pools),
            **assignment_record(policy.state.assignment(key)),
        }
        for key, grant in policy.state.grants.items()
        if key in by_key
    ]


def _decide(policy: Policy, step: SimulationStep) -> Decision:
    if step.action is Action.RELEASE:
        return policy.release(step.request.key)
    if step.action is Action.RESIZE:
        return policy.resize(step.request)
    return policy.allocate(step.request)
