"""Policies and rules about the ends of containers."""

import pytest

from interpose.node.pods.spec import RestartPolicy, RestartRule
from interpose.node.pods.sync.restart_policy import is_sidecar, policy_of, restarts_after, rule_for, should_restart
from tests.support.node.pod_model import make_container, make_pod, make_sidecar, make_status

ALWAYS, ON_FAILURE, NEVER = RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER
C = make_container("c")


@pytest.mark.parametrize(
    ("policy", "failed", "again"),
    [
        (ALWAYS, False, True),
        (ALWAYS, True, True),
        (ON_FAILURE, False, False),
        (ON_FAILURE, True, True),
        (NEVER, False, False),
        (NEVER, True, False),
    ],
)
def test_what_policies_say_about_ends(policy: RestartPolicy, failed: bool, again: bool) -> None:
    """The whole table."""
    assert restarts_after(policy, failed=failed) is again


@pytest.mark.parametrize(("state", "again"), [("created", True), ("running", False), ("unknown", True)])
def test_what_has_not_ended(state: str, again: bool) -> None:
    """Whatever the policy."""
    assert should_restart(make_pod(C, restart_policy=NEVER), C, make_status(C, state)) is again


def test_what_was_never_made_is_started() -> None:
    """Unless the pod is being deleted."""
    assert should_restart(make_pod(C, restart_policy=NEVER), C, None)
    assert not should_restart(make_pod(C, deleted=True), C, None)


def test_the_exit_code_says_whether_it_failed() -> None:
    """Memory may have been short for a child of it."""
    onfailure = make_pod(C, restart_policy=ON_FAILURE)
    assert not should_restart(onfailure, C, make_status(C, "exited", 0, reason="OOMKilled"))
    assert should_restart(onfailure, C, make_status(C, "exited", 137, reason="OOMKilled"))


def test_a_container_may_have_a_policy_of_its_own() -> None:
    """And then the pod's does not count."""
    own = make_container("c", restart_policy=NEVER)
    assert policy_of(make_pod(own), own) is NEVER
    assert policy_of(make_pod(C, restart_policy=ON_FAILURE), C) is ON_FAILURE


def test_a_sidecar_is_an_init_container_that_always_restarts() -> None:
    """Others end."""
    assert is_sidecar(make_sidecar("s"))
    assert not is_sidecar(make_container("i", restart_policy=ON_FAILURE))


def test_the_first_rule_that_knows_an_end_counts() -> None:
    """In their order; what has not ended has none."""
    rules = (
        RestartRule(action="Restart", operator="In", codes=(1, 2)),
        RestartRule(action="RestartAllContainers", operator="NotIn", codes=(0,)),
    )
    ruled = make_container("c", restart_rules=rules)
    ends = [rule_for(ruled, make_status(ruled, "exited", code)) for code in (0, 1, 2, 3)]
    assert ends == [None, "Restart", "Restart", "RestartAllContainers"]
    assert [rule_for(ruled, make_status(ruled, state, 3)) for state in ("created", "running", "unknown")] == [None] * 3
    assert rule_for(ruled, None) is None
