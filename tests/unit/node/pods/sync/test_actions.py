"""What is done about a pod, row by row: the sandbox, main and ephemeral containers, rules, and what nobody wants."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from interpose.node.pods.spec import ContainerSpec, PodSpec, ResourceRequirements, RestartPolicy, RestartRule
from interpose.node.pods.status.types import ContainerStatus, PodStatus
from interpose.node.pods.sync.actions import KillReason, PodActions, compute_pod_actions, pod_sandbox_changed
from tests.support.node.pod_model import (
    FixedHealth,
    brief,
    make_container,
    make_pod,
    make_pod_status,
    make_sandbox,
    make_sidecar,
    make_status,
)

ALWAYS, ON_FAILURE, NEVER = RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER
ALL = (0, 1, 2)
DOWN = (make_sandbox(ready=False),)
RESTART_NEW = {"kill_pod": True, "create_sandbox": True, "attempt": 1}
HEALTHY = FixedHealth()


def status_of(pod: PodSpec, states: Mapping[int, Any], **more: Any) -> PodStatus:
    """All main containers run but those that are named: "created", "unknown", an exit code, None for never made."""
    found = [one_of(pod.containers[index], states.get(index, "running")) for index in range(len(pod.containers))]
    return make_pod_status(*filter(None, found), **more)


def one_of(container: ContainerSpec, state: Any) -> ContainerStatus | None:
    """One container in a state."""
    if state is None:
        return None
    return make_status(container, "exited", state) if isinstance(state, int) else make_status(container, state)


def _exited(code: int) -> dict[int, Any]:
    return dict.fromkeys(ALL, code)


def _ids(**names: bool) -> dict[str, bool]:
    return {f"{name}-id": well for name, well in names.items()}


def _other_image(status: PodStatus, name: str) -> PodStatus:
    changed = [replace(one, hash="0") if one.name == name else one for one in status.containers]
    return make_pod_status(*changed, sandboxes=status.sandboxes)


# The rows of the kubelet's own table: policy, states of containers, what else is there, and what follows.
KUBELET: Mapping[str, tuple[RestartPolicy, PodStatus, FixedHealth, dict[str, Any]]] = {
    "nothing to do": (ALWAYS, status_of(make_pod(), {}), HEALTHY, {}),
    "a new pod": (
        ALWAYS,
        make_pod_status(sandboxes=()),
        HEALTHY,
        {"kill_pod": True, "create_sandbox": True, "start": ALL},
    ),
    "always restarts what ended": (ALWAYS, status_of(make_pod(), {0: 0, 1: 111}), HEALTHY, {"start": (0, 1)}),
    "on failure restarts what failed": (ON_FAILURE, status_of(make_pod(), {0: 0, 1: 111}), HEALTHY, {"start": (1,)}),
    "on failure starts what was only created": (
        ON_FAILURE,
        status_of(make_pod(), {0: 0, 1: "created"}),
        HEALTHY,
        {"start": (1,)},
    ),
    "never restarts nothing": (NEVER, status_of(make_pod(), {0: 0, 1: 111}), HEALTHY, {}),
    "a sandbox that is down": (
        ALWAYS,
        status_of(make_pod(), {}, sandboxes=DOWN),
        HEALTHY,
        {**RESTART_NEW, "start": ALL},
    ),
    "a sandbox that is down, and one has succeeded": (
        ON_FAILURE,
        status_of(make_pod(), {1: 0}, sandboxes=DOWN),
        HEALTHY,
        {**RESTART_NEW, "start": (0, 2)},
    ),
    "a sandbox without an address": (
        ALWAYS,
        status_of(make_pod(), {}, sandboxes=(make_sandbox(ip=""),)),
        HEALTHY,
        {**RESTART_NEW, "start": ALL},
    ),
    "another image": (
        ALWAYS,
        _other_image(status_of(make_pod(), {}), "c1"),
        HEALTHY,
        {"kill": {"c1-id": "DefinitionChanged"}, "start": (1,)},
    ),
    "not alive": (
        ALWAYS,
        status_of(make_pod(), {}),
        FixedHealth(alive=_ids(c1=False)),
        {"kill": {"c1-id": "LivenessProbe"}, "start": (1,)},
    ),
    "not started": (
        ALWAYS,
        status_of(make_pod(), {}),
        FixedHealth(started=_ids(c1=False)),
        {"kill": {"c1-id": "StartupProbe"}, "start": (1,)},
    ),
    "a finished pod whose sandbox is down": (
        NEVER,
        status_of(make_pod(), _exited(0), sandboxes=(make_sandbox(1, ready=False),)),
        HEALTHY,
        {"kill_pod": True, "attempt": 2, "settled": True},
    ),
    "all have succeeded and the sandbox is down": (
        ON_FAILURE,
        status_of(make_pod(), _exited(0), sandboxes=(make_sandbox(1, ready=False),)),
        HEALTHY,
        {"kill_pod": True, "attempt": 2, "settled": True},
    ),
    "sandboxes that failed before any container was made": (
        NEVER,
        make_pod_status(sandboxes=(make_sandbox(2, ready=False), make_sandbox(1, ready=False))),
        HEALTHY,
        {"kill_pod": True, "create_sandbox": True, "attempt": 3, "start": ALL},
    ),
    "never, and one is in an unknown state": (
        NEVER,
        status_of(make_pod(), {1: "unknown"}),
        HEALTHY,
        {"kill": {"c1-id": "Unknown"}, "start": (1,)},
    ),
    "never, and one was only created": (NEVER, status_of(make_pod(), {1: "created"}), HEALTHY, {"start": (1,)}),
}


@pytest.mark.parametrize("row", KUBELET)
def test_decisions_are_those_of_the_kubelet(row: str) -> None:
    """A pod of three containers that run in a sandbox with an address, and one thing that is different."""
    policy, status, health, expected = KUBELET[row]
    assert brief(compute_pod_actions(make_pod(restart_policy=policy), status, health)) == expected


def _rule(action: str, operator: str, *codes: int) -> tuple[RestartRule, ...]:
    return (RestartRule(action=action, operator=operator, codes=codes),)


OWN_ALWAYS = make_pod(make_container("c0", restart_policy=ALWAYS), "c1", "c2", restart_policy=NEVER)
OWN_NEVER = make_pod(make_container("c0", restart_policy=NEVER), "c1", "c2")
OWN_ON_FAILURE = make_pod(make_container("c0", restart_policy=ON_FAILURE), "c1", "c2")
RULED = make_pod(
    make_container("c0", restart_policy=NEVER, restart_rules=_rule("Restart", "In", 42, 43)), restart_policy=NEVER
)
RULED_OUT = make_pod(
    make_container("c0", restart_policy=NEVER, restart_rules=_rule("Restart", "NotIn", 0)), "c1", restart_policy=NEVER
)
RESTART_ALL = make_pod(
    make_container("c0", restart_policy=NEVER, restart_rules=_rule("RestartAllContainers", "In", 42)),
    "c1",
    restart_policy=NEVER,
)
FIRST_RULE = make_pod(
    make_container(
        "c0",
        restart_policy=NEVER,
        restart_rules=(*_rule("Restart", "In", 1), *_rule("RestartAllContainers", "NotIn", 0)),
    ),
    "c1",
)
ALL_WITH_SIDECAR = make_pod("c0", init=(make_sidecar("s0", restart_rules=_rule("RestartAllContainers", "In", 0)),))
SIDECAR_ENDED = make_status(ALL_WITH_SIDECAR.init_containers[0], "exited", 0)
DONE_FOR_GOOD = make_pod(
    make_container("c0", restart_policy=NEVER), make_container("c1", restart_policy=ON_FAILURE), restart_policy=ALWAYS
)
BAD_START = make_pod("c0", init=(make_container("i0", restart_policy=NEVER),), restart_policy=ALWAYS)
RULED_SUCCESS = make_pod(make_container("c0", restart_policy=ON_FAILURE, restart_rules=_rule("Restart", "In", 0)))
DEBUG = make_pod(ephemeral_containers=(make_container("d0"), make_container("d1")))
NEW_ONE = {"kill_pod": True, "create_sandbox": True}


def _with(status: PodStatus, *more: ContainerStatus) -> PodStatus:
    return make_pod_status(*more, *status.containers, sandboxes=status.sandboxes)


# What the kubelet's table has not: own policies, rules, ephemeral containers, ends, strays.
FURTHER: Mapping[str, tuple[PodSpec, PodStatus, FixedHealth, dict[str, Any]]] = {
    "its own policy Always in a pod of Never": (
        OWN_ALWAYS,
        status_of(OWN_ALWAYS, {0: 0, 1: 1}),
        HEALTHY,
        {"start": (0,)},
    ),
    "its own policy Never in a pod of Always": (
        OWN_NEVER,
        status_of(OWN_NEVER, {0: 1, 1: 1}),
        HEALTHY,
        {"start": (1,)},
    ),
    "its own policy OnFailure, and it succeeded": (OWN_ON_FAILURE, status_of(OWN_ON_FAILURE, {0: 0}), HEALTHY, {}),
    "its own policy OnFailure, and it failed": (
        OWN_ON_FAILURE,
        status_of(OWN_ON_FAILURE, {0: 2}),
        HEALTHY,
        {"start": (0,)},
    ),
    "its own OnFailure counts when the sandbox is new": (
        OWN_ON_FAILURE,
        status_of(OWN_ON_FAILURE, {0: 0, 1: 0}, sandboxes=DOWN),
        HEALTHY,
        {**RESTART_NEW, "start": (1, 2)},
    ),
    "its own Always beats the pod's OnFailure when the sandbox is new": (
        replace(OWN_ALWAYS, restart_policy=ON_FAILURE),
        status_of(OWN_ALWAYS, {0: 0, 1: 0}, sandboxes=DOWN),
        HEALTHY,
        {**RESTART_NEW, "start": (0, 2)},
    ),
    "a rule knows the exit code": (RULED, status_of(RULED, {0: 42}), HEALTHY, {"start": (0,)}),
    "a rule knows a second exit code": (RULED, status_of(RULED, {0: 43}), HEALTHY, {"start": (0,)}),
    "no rule knows the exit code": (RULED, status_of(RULED, {0: 1}), HEALTHY, {"kill_pod": True}),
    "a rule about all codes but some": (RULED_OUT, status_of(RULED_OUT, {0: 9}), HEALTHY, {"start": (0,)}),
    "a rule about all codes but that one": (RULED_OUT, status_of(RULED_OUT, {0: 0}), HEALTHY, {}),
    "a rule may save one that is not alive, so the pod stays": (
        RULED,
        status_of(RULED, {}),
        FixedHealth(alive=_ids(c0=False)),
        {"kill": {"c0-id": "LivenessProbe"}},
    ),
    "one end is the end of all": (
        RESTART_ALL,
        status_of(RESTART_ALL, {0: 42}),
        HEALTHY,
        {"kill": {"c1-id": "RestartAllContainers"}, "reset": ("c1-id", "c0-id"), "start": (0, 1)},
    ),
    "one end is the end of all, and one is unknown": (
        RESTART_ALL,
        status_of(RESTART_ALL, {0: 42, 1: "unknown"}),
        HEALTHY,
        {"kill": {"c1-id": "RestartAllContainers"}, "reset": ("c1-id", "c0-id"), "start": (0, 1)},
    ),
    "the end of all goes on where it was interrupted": (
        RESTART_ALL,
        status_of(RESTART_ALL, {0: 42, 1: 137}),
        HEALTHY,
        {"reset": ("c1-id", "c0-id"), "start": (0, 1)},
    ),
    "the end of all, with some removed already": (
        RESTART_ALL,
        status_of(RESTART_ALL, {0: 42, 1: None}),
        HEALTHY,
        {"reset": ("c0-id",), "start": (0, 1)},
    ),
    "and a sidecar's good end, too": (
        ALL_WITH_SIDECAR,
        make_pod_status(*(make_status(one) for one in ALL_WITH_SIDECAR.containers), SIDECAR_ENDED),
        HEALTHY,
        {"kill": {"c0-id": "RestartAllContainers"}, "reset": ("c0-id", "s0-id"), "init_start": (0,)},
    ),
    "another end is only its own": (RESTART_ALL, status_of(RESTART_ALL, {0: 1}), HEALTHY, {}),
    "of two rules the first counts": (FIRST_RULE, status_of(FIRST_RULE, {0: 1}), HEALTHY, {"start": (0,)}),
    "the second rule counts where the first is silent": (
        FIRST_RULE,
        status_of(FIRST_RULE, {0: 7}),
        HEALTHY,
        {"kill": {"c1-id": "RestartAllContainers"}, "reset": ("c1-id", "c0-id"), "start": (0, 1)},
    ),
    "ephemeral ones are left alone when all start over": (
        replace(RESTART_ALL, ephemeral_containers=(make_container("d0"),)),
        _with(status_of(RESTART_ALL, {0: 42, 1: 1}), make_status(make_container("d0"))),
        HEALTHY,
        {"reset": ("c1-id", "c0-id"), "start": (0, 1)},
    ),
    "ephemeral containers are started": (DEBUG, status_of(DEBUG, {}), HEALTHY, {"ephemeral_start": (0, 1)}),
    "an ephemeral container that runs is not started again": (
        DEBUG,
        _with(status_of(DEBUG, {}), make_status(make_container("d0"))),
        HEALTHY,
        {"ephemeral_start": (1,)},
    ),
    "an ephemeral container that ended is never started again": (
        DEBUG,
        _with(
            status_of(DEBUG, {}),
            make_status(make_container("d0"), "exited", 1),
            make_status(make_container("d1"), "created"),
        ),
        HEALTHY,
        {},
    ),
    "an ephemeral container of an old sandbox is not started again": (
        DEBUG,
        _with(
            status_of(DEBUG, {}),
            make_status(make_container("d0"), "exited", sandbox_id="old"),
            make_status(make_container("d1"), "exited", sandbox_id="old"),
        ),
        HEALTHY,
        {},
    ),
    "no ephemeral container in a new sandbox at once": (
        DEBUG,
        make_pod_status(sandboxes=()),
        HEALTHY,
        {**NEW_ONE, "start": ALL},
    ),
    "no ephemeral container in a pod that has ended": (
        replace(DEBUG, restart_policy=NEVER),
        status_of(DEBUG, _exited(0)),
        HEALTHY,
        {"kill_pod": True},
    ),
    "all have ended and never restart": (
        make_pod(restart_policy=NEVER),
        status_of(make_pod(), _exited(1)),
        HEALTHY,
        {"kill_pod": True},
    ),
    "all have succeeded": (
        make_pod(restart_policy=ON_FAILURE),
        status_of(make_pod(), _exited(0)),
        HEALTHY,
        {"kill_pod": True},
    ),
    "all have failed": (
        make_pod(restart_policy=ON_FAILURE),
        status_of(make_pod(), _exited(1)),
        HEALTHY,
        {"start": ALL},
    ),
    "the last one of Never is not alive": (
        make_pod("c0", restart_policy=NEVER),
        status_of(make_pod("c0"), {}),
        FixedHealth(alive=_ids(c0=False)),
        {"kill_pod": True, "kill": {"c0-id": "LivenessProbe"}},
    ),
    "one of two of Never is not alive": (
        make_pod("c0", "c1", restart_policy=NEVER),
        status_of(make_pod("c0", "c1"), {}),
        FixedHealth(alive=_ids(c0=False)),
        {"kill": {"c0-id": "LivenessProbe"}},
    ),
    "another image restarts in spite of Never": (
        make_pod("c0", restart_policy=NEVER),
        _other_image(status_of(make_pod("c0"), {}), "c0"),
        HEALTHY,
        {"kill": {"c0-id": "DefinitionChanged"}, "start": (0,)},
    ),
    "alive and started is well": (
        make_pod("c0"),
        status_of(make_pod("c0"), {}),
        FixedHealth(alive=_ids(c0=True), started=_ids(c0=True)),
        {},
    ),
    "all unknown": (
        make_pod("c0"),
        status_of(make_pod("c0"), {0: "unknown"}),
        HEALTHY,
        {"kill": {"c0-id": "Unknown"}, "start": (0,)},
    ),
    "one was never made": (make_pod(), status_of(make_pod(), {2: None}), HEALTHY, {"start": (2,)}),
    "one of Never was never made": (
        make_pod(restart_policy=NEVER),
        status_of(make_pod(), {2: None}),
        HEALTHY,
        {"start": (2,)},
    ),
    "a deleted pod ends": (make_pod(deleted=True), status_of(make_pod(), {0: 1}), HEALTHY, {"kill_pod": True}),
    "a deleted pod that has ended": (
        make_pod(deleted=True),
        status_of(make_pod(), _exited(0), sandboxes=DOWN),
        HEALTHY,
        {"kill_pod": True, "attempt": 1, "settled": True},
    ),
    "a deleted pod that never was": (
        make_pod(deleted=True),
        make_pod_status(sandboxes=()),
        HEALTHY,
        {"kill_pod": True, "settled": True},
    ),
    "a container that the manifest no longer has": (
        make_pod("c0"),
        status_of(make_pod("c0", "gone"), {}),
        HEALTHY,
        {"kill": {"gone-id": "NotWanted"}},
    ),
    "a container that the manifest no longer has, and that has ended": (
        make_pod("c0"),
        status_of(make_pod("c0", "gone"), {1: 0}),
        HEALTHY,
        {},
    ),
    "an old instance that runs beside the new one": (
        make_pod("c0"),
        make_pod_status(
            make_status(make_container("c0"), id="new"),
            make_status(make_container("c0"), id="old"),
        ),
        HEALTHY,
        {"kill": {"old": "NotWanted"}},
    ),
    "one that runs in an old sandbox": (
        make_pod("c0", restart_policy=NEVER),
        make_pod_status(make_status(make_container("c0")), sandboxes=(make_sandbox(1), make_sandbox(0, ready=False))),
        HEALTHY,
        {"attempt": 1, "kill": {"c0-id": "DefinitionChanged"}, "start": (0,)},
    ),
    "two sandboxes are ready": (
        make_pod("c0"),
        status_of(make_pod("c0"), {}, sandboxes=(make_sandbox(3), make_sandbox(2))),
        HEALTHY,
        {**NEW_ONE, "attempt": 4, "start": (0,)},
    ),
    "a finished pod with containers still running in a dead sandbox": (
        make_pod("c0", restart_policy=NEVER),
        status_of(make_pod("c0"), {}, sandboxes=DOWN),
        HEALTHY,
        {"kill_pod": True, "attempt": 1},
    ),
    "containers without any sandbox, and none is to be restarted": (
        make_pod("c0", restart_policy=NEVER),
        status_of(make_pod("c0"), {0: "unknown"}, sandboxes=()),
        HEALTHY,
        {**NEW_ONE, "start": (0,)},
    ),
    "containers without any sandbox": (
        make_pod("c0"),
        status_of(make_pod("c0"), {}, sandboxes=()),
        HEALTHY,
        {**NEW_ONE, "start": (0,)},
    ),
    "a pod whose containers never restart has ended, whatever its own policy": (
        DONE_FOR_GOOD,
        status_of(DONE_FOR_GOOD, {0: 0, 1: 0}, sandboxes=DOWN),
        HEALTHY,
        {"kill_pod": True, "attempt": 1, "settled": True},
    ),
    "and so has one whose init container failed and never restarts": (
        BAD_START,
        make_pod_status(make_status(BAD_START.init_containers[0], "exited", 1), sandboxes=DOWN),
        HEALTHY,
        {"kill_pod": True, "attempt": 1, "settled": True},
    ),
    "a success after which a rule wants another start, in a sandbox that is down": (
        RULED_SUCCESS,
        status_of(RULED_SUCCESS, {0: 0}, sandboxes=DOWN),
        HEALTHY,
        {**RESTART_NEW, "start": (0,)},
    ),
    "only unknown ones have been made, and none is left to start": (
        make_pod(restart_policy=ON_FAILURE),
        status_of(make_pod(), {0: "unknown", 1: 0, 2: 0}, sandboxes=DOWN),
        HEALTHY,
        {**RESTART_NEW, "start": (0,)},
    ),
}


@pytest.mark.parametrize("row", FURTHER)
def test_decisions_beyond_the_kubelets_table(row: str) -> None:
    """Policies and rules of containers, ephemeral ones, what has ended, and what nobody wants."""
    pod, status, health, expected = FURTHER[row]
    assert brief(compute_pod_actions(pod, status, health)) == expected


def _sized(policy: Mapping[str, str] | None = None, **amounts: int) -> ContainerSpec:
    limits = {name: Fraction(value) for name, value in amounts.items()}
    return make_container("c0", resources=ResourceRequirements(limits=limits), resize_policy=policy or {})


RESTART_FOR_MEMORY = {"memory": "RestartContainer", "cpu": "NotRequired"}
# Before, after, and what follows.
RESIZES: Mapping[str, tuple[ResourceRequirements | None, ContainerSpec, dict[str, Any]]] = {
    "the same": (_sized(cpu=1).resources, _sized(cpu=1), {}),
    "not known": (None, _sized(cpu=1), {}),
    "more CPUs": (_sized(cpu=1).resources, _sized(cpu=2), {"resize": ((0, "c0-id", False),)}),
    "less CPUs": (_sized(cpu=2).resources, _sized(cpu=1), {"resize": ((0, "c0-id", False),)}),
    "a limit where none was": (ResourceRequirements(), _sized(cpu=1), {"resize": ((0, "c0-id", False),)}),
    "no limit any more": (_sized(memory=1).resources, _sized(), {"resize": ((0, "c0-id", False),)}),
    "only the request": (
        _sized(cpu=2).resources,
        make_container(
            "c0", resources=ResourceRequirements(limits={"cpu": Fraction(2)}, requests={"cpu": Fraction(1)})
        ),
        {"resize": ((0, "c0-id", False),)},
    ),
    "the request is written where it was the limit": (
        _sized(cpu=2).resources,
        make_container(
            "c0", resources=ResourceRequirements(limits={"cpu": Fraction(2)}, requests={"cpu": Fraction(2)})
        ),
        {},
    ),
    "a resource that cannot be resized": (_sized(disk=1).resources, _sized(disk=2), {}),
    "memory, which needs a restart": (
        _sized(memory=1).resources,
        _sized(RESTART_FOR_MEMORY, memory=2),
        {"kill": {"c0-id": "Resize"}, "start": (0,)},
    ),
    "CPUs, where only memory needs a restart": (
        _sized(cpu=1).resources,
        _sized(RESTART_FOR_MEMORY, cpu=2),
        {"resize": ((0, "c0-id", False),)},
    ),
    "both, and one needs a restart": (
        _sized(cpu=1, memory=1).resources,
        _sized(RESTART_FOR_MEMORY, cpu=2, memory=2),
        {"kill": {"c0-id": "Resize"}, "start": (0,)},
    ),
}


@pytest.mark.parametrize("row", RESIZES)
def test_edited_resources_are_given_in_place_or_by_a_restart(row: str) -> None:
    """As the policy of the resource says."""
    before, container, expected = RESIZES[row]
    status = make_pod_status(make_status(container, resources=before))
    assert brief(compute_pod_actions(make_pod(container), status)) == expected


def test_a_container_that_is_killed_anyway_is_not_resized() -> None:
    """One thing at a time."""
    container = _sized(cpu=2)
    status = make_pod_status(make_status(container, resources=ResourceRequirements()))
    actions = compute_pod_actions(make_pod(container), status, FixedHealth(alive=_ids(c0=False)))
    assert brief(actions) == {"kill": {"c0-id": "LivenessProbe"}, "start": (0,)}


def test_a_pod_that_ends_is_not_resized() -> None:
    """A sidecar of it would be the only one left."""
    side = replace(_sized(cpu=2), name="side", restart_policy=ALWAYS)
    pod = make_pod("c0", init=(side,), restart_policy=NEVER)
    status = make_pod_status(
        make_status(pod.containers[0], "exited"), make_status(side, resources=_sized(cpu=1).resources)
    )
    assert brief(compute_pod_actions(pod, status)) == {"kill_pod": True}


NETWORKS: Mapping[str, tuple[bool, PodStatus, tuple[bool, int, str]]] = {
    "none yet": (False, make_pod_status(sandboxes=()), (True, 0, "")),
    "ready": (False, make_pod_status(sandboxes=(make_sandbox(4),)), (False, 4, "sandbox-4")),
    "down": (False, make_pod_status(sandboxes=(make_sandbox(4, ready=False),)), (True, 5, "sandbox-4")),
    "an old one is down": (
        False,
        make_pod_status(sandboxes=(make_sandbox(1), make_sandbox(0, ready=False))),
        (False, 1, "sandbox-1"),
    ),
    "an old one is up": (False, make_pod_status(sandboxes=(make_sandbox(1), make_sandbox(0))), (True, 2, "sandbox-1")),
    "no word about its network": (False, make_pod_status(sandboxes=(make_sandbox(ip=None),)), (False, 0, "sandbox-0")),
    "no address": (False, make_pod_status(sandboxes=(make_sandbox(ip=""),)), (True, 1, "sandbox-0")),
    "of the node, as wanted, without an address": (
        True,
        make_pod_status(sandboxes=(make_sandbox(host_network=True, ip=""),)),
        (False, 0, "sandbox-0"),
    ),
    "its own, and the node's is wanted": (True, make_pod_status(sandboxes=(make_sandbox(2),)), (True, 3, "")),
    "the node's, and its own is wanted": (
        False,
        make_pod_status(sandboxes=(make_sandbox(2, host_network=True),)),
        (True, 3, ""),
    ),
}


@pytest.mark.parametrize("row", NETWORKS)
def test_whether_a_new_sandbox_is_needed(row: str) -> None:
    """Whether, with which attempt, and which one is the newest."""
    host_network, status, expected = NETWORKS[row]
    assert pod_sandbox_changed(make_pod(host_network=host_network), status) == expected


def test_a_kill_says_what_will_happen() -> None:
    """In words for people, with the container that the manager needs for its grace."""
    pod = make_pod("c0")
    actions = compute_pod_actions(pod, status_of(pod, {}), FixedHealth(alive=_ids(c0=False)))
    kill = actions.kill["c0-id"]
    assert (kill.container, kill.name, kill.reason) == (pod.containers[0], "c0", KillReason.LIVENESS)
    assert kill.message == "Container c0 failed its liveness probe, will be restarted"


def test_a_stray_has_no_container_if_the_manifest_has_none() -> None:
    """And says so."""
    actions = compute_pod_actions(make_pod("c0"), status_of(make_pod("c0", "gone"), {}))
    kill = actions.kill["gone-id"]
    assert (kill.container, kill.message) == (None, "Container gone is not in the manifest any more")


def test_actions_name_the_sandbox_they_are_for() -> None:
    """The one to start containers in, or the one to be killed."""
    pod = make_pod("c0")
    assert compute_pod_actions(pod, status_of(pod, {})).sandbox_id == "sandbox-0"
    assert compute_pod_actions(pod, status_of(pod, {}, sandboxes=DOWN)).sandbox_id == "sandbox-0"


def test_nothing_is_nothing() -> None:
    """Also a pod that is to be killed and of which nothing runs."""
    assert PodActions().nothing
    assert PodActions(kill_pod=True, settled=True).nothing
    assert not PodActions(kill_pod=True).nothing
    assert not PodActions(create_sandbox=True).nothing
    assert not PodActions(start=(0,)).nothing
