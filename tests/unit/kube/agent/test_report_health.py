"""Whether the node has the configuration of the cluster."""

import pytest

from interpose.kube.agent.config_choice import ChoiceResult, ConfigChoice, ObservedObject, SelectedConfig
from interpose.kube.agent.push_state import PushPhase, PushState
from interpose.kube.agent.report import config_problem

MAP = SelectedConfig(source="kube-system/x", version="1", data={})


@pytest.mark.parametrize(
    ("verdict", "phase", "problem"),
    [
        (ChoiceResult.CHOSEN, PushPhase.APPLIED, ""),
        (ChoiceResult.MISSING, PushPhase.WITHDRAWN, ""),
        (ChoiceResult.MISSING, PushPhase.WAITING, ""),  # nothing is wanted, or not yet
        (ChoiceResult.CHOSEN, PushPhase.WAITING, "the relay has not confirmed the configuration yet"),
        (ChoiceResult.CHOSEN, PushPhase.WITHDRAWN, "the relay has not confirmed the configuration yet"),
        (ChoiceResult.CHOSEN, PushPhase.REJECTED, "the configuration was rejected: one; two"),
        (ChoiceResult.UNUSABLE, PushPhase.REJECTED, "the configuration was rejected: one; two"),
        (ChoiceResult.CHOSEN, PushPhase.UNREACHABLE, "the relay is not reachable: one; two"),
        (ChoiceResult.WAIT, PushPhase.REJECTED, "the configuration was rejected: one; two"),
        (ChoiceResult.WAIT, PushPhase.WAITING, "it is not known which configuration counts: no answer yet"),
    ],
)
def test_the_problem_is_named(verdict: ChoiceResult, phase: PushPhase, problem: str) -> None:
    """What the relay says comes first, then what the cluster does not say."""
    state = PushState(phase=phase, chosen=MAP, problems=("one", "two"))
    assert config_problem(ConfigChoice(verdict=verdict), state, [ObservedObject("x", False, None)]) == problem


def test_why_it_is_not_known_is_said() -> None:
    """Each ConfigMap has its own trouble."""
    maps = [
        ObservedObject("x", False, None, "no route"),
        ObservedObject("y", True, None),
        ObservedObject("z", False, None, "no route"),
    ]
    problem = config_problem(ConfigChoice(verdict=ChoiceResult.WAIT), PushState(), maps)
    assert problem.endswith(": ConfigMap x: no route; ConfigMap z: no route")
