"""Whether the node has the configuration of the cluster, in one sentence. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from interpose.kube.agent.configmap_choice import Choice, Seen, Verdict
from interpose.kube.agent.push_state import Phase, State

_SAID: Final[Mapping[Phase, str]] = {
    Phase.REJECTED: "the configuration was rejected",
    Phase.UNREACHABLE: "the relay is not reachable",
    Phase.FORBIDDEN: "it is not known what the configuration is",
}


def config_problem(choice: Choice, state: State, maps: Sequence[Seen]) -> str:
    """What is wrong; empty if the node has what the cluster wants, or the cluster wants nothing."""
    if state.phase in _SAID:
        return f"{_SAID[state.phase]}: {'; '.join(state.problems)}"
    if choice.verdict is Verdict.WAIT:
        reasons = dict.fromkeys(f"ConfigMap {one.name}: {one.problem}" for one in maps if one.problem)
        return f"it is not known which configuration counts: {'; '.join(reasons) or 'no answer yet'}"
    if choice.verdict is Verdict.CHOSEN and state.phase is not Phase.APPLIED:
        return "the relay has not confirmed the configuration yet"
    return ""
