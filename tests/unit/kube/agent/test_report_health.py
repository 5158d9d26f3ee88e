"""Whether the node has the configuration of the cluster."""

import pytest

from interpose.kube.agent.configmap_choice import Choice, Chosen, Seen, Verdict
from interpose.kube.agent.push_state import Phase, State
from interpose.kube.agent.report import config_problem

MAP = Chosen(source="kube-system/x", version="1", data={})


@pytest.mark.parametrize(
    ("verdict", "phase", "problem"),
    [
        (Verdict.CHOSEN, Phase.APPLIED, ""),
        (Verdict.MISSING, Phase.WITHDRAWN, ""),
        (Verdict.MISSING, Phase.WAITING, ""),  # nothing is wanted, or not yet
        (Verdict.CHOSEN, Phase.WAITING, "the relay has not confirmed the configuration yet"),
        (Verdict.CHOSEN, Phase.WITHDRAWN, "the relay has not confirmed the configuration yet"),
        (Verdict.CHOSEN, Phase.REJECTED, "the configuration was rejected: one; two"),
        (Verdict.UNUSABLE, Phase.REJECTED, "the configuration was rejected: one; two"),
        (Verdict.CHOSEN, Phase.UNREACHABLE, "the relay is not reachable: one; two"),
        (Verdict.WAIT, Phase.REJECTED, "the configuration was rejected: one; two"),
        (Verdict.WAIT, Phase.WAITING, "it is not known which configuration counts: no answer yet"),
    ],
)
def test_the_problem_is_named(verdict: Verdict, phase: Phase, problem: str) -> None:
    """What the relay says comes first, then what the cluster does not say."""
    state = State(phase=phase, chosen=MAP, problems=("one", "two"))
    assert config_problem(Choice(verdict=verdict), state, [Seen("x", False, None)]) == problem


def test_why_it_is_not_known_is_said() -> None:
    """Each ConfigMap has its own trouble."""
    maps = [Seen("x", False, None, "no route"), Seen("y", True, None), Seen("z", False, None, "no route")]
    problem = config_problem(Choice(verdict=Verdict.WAIT), State(), maps)
    assert problem.endswith(": ConfigMap x: no route; ConfigMap z: no route")
