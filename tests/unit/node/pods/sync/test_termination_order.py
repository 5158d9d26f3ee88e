"""How long a container may take to end, and after whom."""

from typing import Any

import pytest

from interpose.node.pods.spec import Probe, RestartPolicy, TcpAction
from interpose.node.pods.status.annotations import ContainerAnnotations
from interpose.node.pods.sync.actions import KillReason
from interpose.node.pods.sync.termination_order import at_least, grace_of, order_of, predecessors
from tests.support.node.managed_node import container, pod

LIVENESS = Probe(action=TcpAction(port=80), termination_grace_period=5)
STARTUP = Probe(action=TcpAction(port=80), termination_grace_period=6)
PROBED = container(liveness=LIVENESS, startup=STARTUP)
PLAIN = container(liveness=Probe(action=TcpAction(port=80)))


@pytest.mark.parametrize(
    ("fields", "one", "reason", "override", "grace"),
    [
        ({}, PLAIN, None, None, 60),
        ({}, PROBED, KillReason.LIVENESS, None, 5),
        ({}, PROBED, KillReason.STARTUP, None, 6),
        ({}, PROBED, KillReason.CHANGED, None, 60),
        ({}, PLAIN, KillReason.LIVENESS, None, 60),
        ({}, None, KillReason.LIVENESS, None, 60),
        ({"deletion_grace_period": 9}, PROBED, KillReason.LIVENESS, None, 9),
        ({"deletion_grace_period": 0}, PLAIN, None, None, 0),
        ({"deletion_grace_period": 9}, PLAIN, None, 1, 1),
    ],
)
def test_the_grace_of_a_container(
    fields: dict[str, Any], one: Any, reason: KillReason | None, override: int | None, grace: int
) -> None:
    """What was said for this end, then for the deletion, then by the probe, then by the pod."""
    web = pod(one or PLAIN, termination_grace_period=60, **fields)
    assert grace_of(web, one, ContainerAnnotations(), reason=reason, override=override) == grace


@pytest.mark.parametrize(
    ("notes", "grace"),
    [
        (ContainerAnnotations(grace=40), 40),
        (ContainerAnnotations(grace=40, deletion_grace=3), 3),
        (ContainerAnnotations(), 2),
    ],
)
def test_without_a_manifest_the_notes_count(notes: ContainerAnnotations, grace: int) -> None:
    """And without those the least there is."""
    assert grace_of(None, None, notes) == grace


@pytest.mark.parametrize(("left", "said"), [(30, 30), (2, 2), (1, 2), (0, 2), (-5, 2), (2.9, 2)])
def test_there_is_always_a_little_time(left: float, said: int) -> None:
    """Two seconds."""
    assert at_least(left) == said


def test_sidecars_end_last_and_in_reverse() -> None:
    """Init containers that do their work and go wait for nobody."""
    sidecars = [container(name, restart_policy=RestartPolicy.ALWAYS) for name in ("first", "second", "down")]
    web = pod(container("a"), container("b"), init_containers=(container("work"), *sidecars))
    running = {"a", "first", "second", "work"}
    assert predecessors(order_of(web), running) == {"second": ("a",), "first": ("a", "second")}
    assert predecessors(order_of(pod()), {"main"}) == {}
