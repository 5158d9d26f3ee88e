"""Init containers run one after the other, and those that stay (sidecars) are kept running."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from interpose.node.pods.spec import ContainerSpec, PodSpec, ResourceRequirements, RestartPolicy, RestartRule
from interpose.node.pods.status.types import ContainerStatus, PodStatus
from interpose.node.pods.sync.actions import compute_pod_actions
from tests.support.node.pod_model import (
    PROBE,
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
WELL = FixedHealth()
NEW = {"kill_pod": True, "create_sandbox": True}
UNKNOWN = {"i0-id": "Unknown"}


def status_of(pod: PodSpec, **more: Any) -> PodStatus:
    """Containers by name: a state, an exit code, or a status; those that are not named were never made."""
    sandboxes = more.pop("sandboxes", None)
    every = {one.name: one for one in (*pod.init_containers, *pod.containers, *pod.ephemeral_containers)}
    return make_pod_status(*(_one(every[name], state) for name, state in more.items()), sandboxes=sandboxes)


def _one(container: ContainerSpec, state: Any) -> ContainerStatus:
    if isinstance(state, ContainerStatus):
        return state
    return make_status(container, "exited", state) if isinstance(state, int) else make_status(container, state)


PLAIN = make_pod("c0", "c1", init=("i0", "i1", "i2"))
ONCE = replace(PLAIN, restart_policy=NEVER)
TRIED = replace(PLAIN, restart_policy=ON_FAILURE)
DOWN = (make_sandbox(ready=False),)

INIT: Mapping[str, tuple[PodSpec, PodStatus, dict[str, Any]]] = {
    "a new pod": (PLAIN, make_pod_status(sandboxes=()), {**NEW, "init_start": (0,)}),
    "a sandbox and nothing in it": (PLAIN, status_of(PLAIN), {"init_start": (0,)}),
    "the first runs": (PLAIN, status_of(PLAIN, i0="running"), {}),
    "the first was only created": (PLAIN, status_of(PLAIN, i0="created"), {"init_start": (0,)}),
    "the first is done": (PLAIN, status_of(PLAIN, i0=0), {"init_start": (1,)}),
    "two are done": (PLAIN, status_of(PLAIN, i1=0, i0=0), {"init_start": (2,)}),
    "the second is done and the first was removed": (PLAIN, status_of(PLAIN, i1=0), {"init_start": (2,)}),
    "all are done": (PLAIN, status_of(PLAIN, i2=0, i1=0, i0=0), {"start": (0, 1)}),
    "only the last is left, and it is done": (PLAIN, status_of(PLAIN, i2=0), {"start": (0, 1)}),
    "the second failed": (PLAIN, status_of(PLAIN, i1=1, i0=0), {"init_start": (1,)}),
    "the second failed, OnFailure": (TRIED, status_of(PLAIN, i1=1, i0=0), {"init_start": (1,)}),
    "the second failed, Never": (ONCE, status_of(PLAIN, i1=1, i0=0), {"kill_pod": True}),
    "one was killed for its memory with code 0, Never": (
        ONCE,
        status_of(PLAIN, i0=make_status(PLAIN.init_containers[0], "exited", reason="OOMKilled")),
        {"kill_pod": True},
    ),
    "one was killed for its memory with code 0": (
        PLAIN,
        status_of(PLAIN, i0=make_status(PLAIN.init_containers[0], "exited", reason="OOMKilled")),
        {"init_start": (0,)},
    ),
    "unknown": (PLAIN, status_of(PLAIN, i0="unknown"), {"init_start": (0,), "kill": UNKNOWN}),
    "unknown, OnFailure": (TRIED, status_of(PLAIN, i0="unknown"), {"init_start": (0,), "kill": UNKNOWN}),
    "unknown, Never": (ONCE, status_of(PLAIN, i0="unknown"), {"kill_pod": True}),
    "an edited image of one that runs changes nothing": (
        PLAIN,
        status_of(PLAIN, i0=make_status(PLAIN.init_containers[0], hash="0")),
        {},
    ),
    "main containers run, all init containers were removed": (
        PLAIN,
        status_of(PLAIN, c0="running", c1="running"),
        {},
    ),
    "main containers run, an init container failed long ago": (
        PLAIN,
        status_of(PLAIN, c0="running", c1="running", i1=1),
        {},
    ),
    "one main container was made, so the other may": (PLAIN, status_of(PLAIN, c0="created"), {"start": (0, 1)}),
    "main containers have ended in this sandbox": (PLAIN, status_of(PLAIN, c0=1, c1=1), {"start": (0, 1)}),
    "main containers have ended in an old sandbox": (
        PLAIN,
        status_of(
            PLAIN,
            c0=make_status(PLAIN.containers[0], "exited", sandbox_id="old"),
            c1=make_status(PLAIN.containers[1], "exited", sandbox_id="old"),
        ),
        {"init_start": (0,)},
    ),
    "init containers were done in an old sandbox": (
        PLAIN,
        status_of(PLAIN, i2=make_status(PLAIN.init_containers[2], "exited", sandbox_id="old")),
        {"init_start": (0,)},
    ),
    "the sandbox is down": (
        PLAIN,
        status_of(PLAIN, c0="running", c1="running", sandboxes=DOWN),
        {**NEW, "attempt": 1, "init_start": (0,)},
    ),
    "the sandbox is down, all have succeeded": (
        TRIED,
        status_of(PLAIN, c0=0, c1=0, sandboxes=DOWN),
        {"kill_pod": True, "attempt": 1, "settled": True},
    ),
    "the sandbox is down while initializing, Never": (
        ONCE,
        status_of(PLAIN, i0=0, sandboxes=DOWN),
        {"kill_pod": True, "attempt": 1, "settled": True},
    ),
    "the sandbox is down while initializing, OnFailure": (
        TRIED,
        status_of(PLAIN, i0=0, sandboxes=DOWN),
        {**NEW, "attempt": 1, "init_start": (0,)},
    ),
    "a deleted pod": (replace(PLAIN, deleted=True), status_of(PLAIN, i0=0), {"kill_pod": True}),
    "an ephemeral container need not wait": (
        replace(PLAIN, ephemeral_containers=(make_container("d0"),)),
        status_of(PLAIN, i0="running"),
        {"ephemeral_start": (0,)},
    ),
    "no ephemeral container after a failure for good": (
        replace(ONCE, ephemeral_containers=(make_container("d0"),)),
        status_of(PLAIN, i0=1),
        {"kill_pod": True},
    ),
    "one that is still running of another sandbox is stopped": (
        PLAIN,
        status_of(PLAIN, i0=make_status(PLAIN.init_containers[0], sandbox_id="old")),
        {"init_start": (0,), "kill": {"i0-id": "NotWanted"}},
    ),
}


@pytest.mark.parametrize("row", INIT)
def test_init_containers_run_one_after_the_other(row: str) -> None:
    """What the last one that is known says decides."""
    pod, status, expected = INIT[row]
    assert brief(compute_pod_actions(pod, status)) == expected


def _own(policy: RestartPolicy, *rules: RestartRule) -> ContainerSpec:
    return make_container("i0", restart_policy=policy, restart_rules=rules)


RESTART_7 = RestartRule(action="Restart", operator="In", codes=(7,))
ALL_7 = RestartRule(action="RestartAllContainers", operator="In", codes=(7,))
OWN: Mapping[str, tuple[RestartPolicy, ContainerSpec, Any, dict[str, Any]]] = {
    "OnFailure in a pod of Never": (NEVER, _own(ON_FAILURE), 1, {"init_start": (0,)}),
    "Never in a pod of Always": (ALWAYS, _own(NEVER), 1, {"kill_pod": True}),
    "Never, and it succeeded": (ALWAYS, _own(NEVER), 0, {"start": (0,)}),
    "a rule saves it": (NEVER, _own(NEVER, RESTART_7), 7, {"init_start": (0,)}),
    "a rule does not know it": (NEVER, _own(NEVER, RESTART_7), 8, {"kill_pod": True}),
    "a rule cannot know an unknown end": (NEVER, _own(NEVER, RESTART_7), "unknown", {"kill_pod": True}),
    "a rule about its good end says nothing": (
        NEVER,
        _own(NEVER, replace(ALL_7, operator="NotIn")),
        0,
        {"start": (0,)},
    ),
    "its end is the end of all": (NEVER, _own(NEVER, ALL_7), 7, {"init_start": (0,), "reset": ("i0-id",)}),
}


@pytest.mark.parametrize("row", OWN)
def test_init_containers_may_have_policies_and_rules_of_their_own(row: str) -> None:
    """They count before the pod's."""
    policy, container, state, expected = OWN[row]
    pod = make_pod("c0", init=(container,), restart_policy=policy)
    assert brief(compute_pod_actions(pod, status_of(pod, i0=state))) == expected


SIDES = make_pod("c0", init=(make_sidecar("i0"), "i1", make_sidecar("i2")))
PROBED = make_pod("c0", init=(make_sidecar("i0", startup=PROBE), make_sidecar("i1", liveness=PROBE)))
ALONE = make_pod("c0", init=(make_sidecar("i0"),))


def _started(**names: bool) -> FixedHealth:
    return FixedHealth(started={f"{name}-id": well for name, well in names.items()})


def _alive(**names: bool) -> FixedHealth:
    return FixedHealth(alive={f"{name}-id": well for name, well in names.items()}, started={"i0-id": True})


def _hashed(container: ContainerSpec) -> ContainerStatus:
    return make_status(container, hash="0")


SIDECARS: Mapping[str, tuple[PodSpec, PodStatus, FixedHealth, dict[str, Any]]] = {
    "nothing yet": (SIDES, status_of(SIDES), WELL, {"init_start": (0,)}),
    "the first runs, so the next one may": (SIDES, status_of(SIDES, i0="running"), WELL, {"init_start": (1,)}),
    "the second, which ends, runs": (SIDES, status_of(SIDES, i1="running", i0="running"), WELL, {}),
    "the second is done": (SIDES, status_of(SIDES, i1=0, i0="running"), WELL, {"init_start": (2,)}),
    "all are up": (SIDES, status_of(SIDES, i2="running", i1=0, i0="running"), WELL, {"start": (0,)}),
    "the first ended while the second runs": (SIDES, status_of(SIDES, i1="running", i0=0), WELL, {"init_start": (0,)}),
    "the first failed while the second is done": (SIDES, status_of(SIDES, i1=0, i0=1), WELL, {"init_start": (0, 2)}),
    "the first failed, and it stays in spite of Never": (
        replace(SIDES, restart_policy=NEVER),
        status_of(SIDES, i1="running", i0=1),
        WELL,
        {"init_start": (0,)},
    ),
    "the last was only created": (
        SIDES,
        status_of(SIDES, i2="created", i1=0, i0="running"),
        WELL,
        {"init_start": (2,)},
    ),
    "main runs and sidecars run": (SIDES, status_of(SIDES, c0="running", i2="running", i0="running"), WELL, {}),
    "main runs, a sidecar ended": (
        SIDES,
        status_of(SIDES, c0="running", i2=0, i0="running"),
        WELL,
        {"init_start": (2,)},
    ),
    "main runs, two sidecars ended": (SIDES, status_of(SIDES, c0="running", i2=0, i0=1), WELL, {"init_start": (0, 2)}),
    "main runs, a sidecar was removed": (
        SIDES,
        status_of(SIDES, c0="running", i2="running"),
        WELL,
        {"init_start": (0,)},
    ),
    "main runs, a sidecar is unknown": (
        SIDES,
        status_of(SIDES, c0="running", i2="running", i0="unknown"),
        WELL,
        {"init_start": (0,), "kill": UNKNOWN},
    ),
    "a sidecar is unknown in a pod of Never": (
        replace(ALONE, restart_policy=NEVER),
        status_of(ALONE, i0="unknown"),
        WELL,
        {"init_start": (0,), "kill": UNKNOWN},
    ),
    "main runs, a sidecar was only created": (
        SIDES,
        status_of(SIDES, c0="running", i2="created", i0="running"),
        WELL,
        {"init_start": (2,)},
    ),
    "all main ones are done, sidecars are not restarted": (
        replace(SIDES, restart_policy=NEVER),
        status_of(SIDES, c0=0, i2=0, i0="running"),
        WELL,
        {"kill_pod": True},
    ),
    "main is restarted, a sidecar too": (
        SIDES,
        status_of(SIDES, c0=1, i2=0, i0="running"),
        WELL,
        {"init_start": (2,), "start": (0,)},
    ),
    "the startup probe has said nothing": (PROBED, status_of(PROBED, i0="running"), WELL, {}),
    "the startup probe has succeeded": (
        PROBED,
        status_of(PROBED, i0="running"),
        _started(i0=True),
        {"init_start": (1,)},
    ),
    "the startup probe has failed": (
        PROBED,
        status_of(PROBED, i0="running"),
        _started(i0=False),
        {"init_start": (0,), "kill": {"i0-id": "StartupProbe"}},
    ),
    "the startup probe has failed while main runs": (
        PROBED,
        status_of(PROBED, c0="running", i1="running", i0="running"),
        _started(i0=False),
        {"init_start": (0,), "kill": {"i0-id": "StartupProbe"}},
    ),
    "liveness is not known": (
        PROBED,
        status_of(PROBED, i1="running", i0="running"),
        _started(i0=True),
        {"start": (0,)},
    ),
    "the liveness probe has failed": (
        PROBED,
        status_of(PROBED, c0="running", i1="running", i0="running"),
        _alive(i1=False),
        {"init_start": (1,), "kill": {"i1-id": "LivenessProbe"}},
    ),
    "liveness is no reason to wait for the next": (
        PROBED,
        status_of(PROBED, i1="running", i0="running"),
        _alive(i1=False),
        {"init_start": (1,), "kill": {"i1-id": "LivenessProbe"}, "start": (0,)},
    ),
    "liveness of one without a probe is nobody's": (
        ALONE,
        status_of(ALONE, c0="running", i0="running"),
        _alive(i0=False),
        {},
    ),
    "another image of a sidecar": (
        ALONE,
        status_of(ALONE, c0="running", i0=_hashed(ALONE.init_containers[0])),
        WELL,
        {"init_start": (0,), "kill": {"i0-id": "DefinitionChanged"}},
    ),
    "another image of a sidecar while initializing": (
        SIDES,
        status_of(SIDES, i0=_hashed(SIDES.init_containers[0])),
        WELL,
        {"init_start": (0, 1), "kill": {"i0-id": "DefinitionChanged"}},
    ),
}


@pytest.mark.parametrize("row", SIDECARS)
def test_sidecars_are_kept_running(row: str) -> None:
    """From their turn on, until the main containers are done."""
    pod, status, health, expected = SIDECARS[row]
    assert brief(compute_pod_actions(pod, status, health)) == expected


def _sidecar_with(cpus: int, **policy: str) -> ContainerSpec:
    return make_sidecar("i0", resources=ResourceRequirements(limits={"cpu": Fraction(cpus)}), resize_policy=policy)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, {"resize": ((0, "i0-id", True),)}),
        ({"cpu": "RestartContainer"}, {"init_start": (0,), "kill": {"i0-id": "Resize"}}),
    ],
)
def test_sidecars_are_resized(policy: dict[str, str], expected: dict[str, Any]) -> None:
    """In place or by a restart, as main containers are."""
    pod = make_pod("c0", init=(_sidecar_with(2, **policy),))
    before = make_status(pod.init_containers[0], resources=_sidecar_with(1).resources)
    assert brief(compute_pod_actions(pod, status_of(pod, c0="running", i0=before))) == expected


def test_the_end_of_a_main_container_can_be_the_end_of_init_containers_too() -> None:
    """Everything starts over from the first one, in the same sandbox; what asked for it is removed last."""
    main = make_container("c0", restart_policy=NEVER, restart_rules=(ALL_7,))
    pod = make_pod(main, "c1", init=("i0", make_sidecar("i1")))
    status = status_of(pod, c0=7, c1="running", i1="running", i0=0)
    assert brief(compute_pod_actions(pod, status)) == {
        "init_start": (0,),
        "kill": {"c1-id": "RestartAllContainers", "i1-id": "RestartAllContainers"},
        "reset": ("c1-id", "i1-id", "i0-id", "c0-id"),
    }
