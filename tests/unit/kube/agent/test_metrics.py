"""Numbers of the parts become families."""

from collections import Counter
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from interpose.kube.agent.config_watches import WatchCounts
from interpose.kube.agent.metrics import (
    api_collector,
    config_collector,
    feed_collector,
    report_collector,
    service_collector,
)
from interpose.kube.agent.node_document import SloPhase, SloState
from interpose.kube.agent.push_state import PushPhase, PushState
from interpose.metrics import Family, Sample


def shown(families: Iterable[Family]) -> dict[str, float]:
    """Samples as an exposition has them."""
    found = {}
    for family in families:
        for sample in family.samples:
            assert isinstance(sample, Sample)
            labels = ",".join(f"{key}={value}" for key, value in sample.labels.items())
            found[family.name.removeprefix("interpose_agent_") + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


def test_the_api_server() -> None:
    """By verb and code, and by kind of what is followed."""
    follower = SimpleNamespace(problem="no route")
    following: Any = SimpleNamespace(
        counts={"Node": WatchCounts(1, 2, 3)},
        followers=[("Node", "n1", follower), ("Node", "n2", SimpleNamespace(problem=""))],
    )
    requests = Counter({("get", "200"): 4, ("list", "unreachable"): 5})
    assert shown(api_collector(requests, lambda: False, following)()) == {
        "api_up": 0,
        "api_requests_total{verb=get,code=200}": 4,
        "api_requests_total{verb=list,code=unreachable}": 5,
        "follow_lists_total{kind=Node}": 1,
        "follow_watches_total{kind=Node}": 2,
        "follow_failures_total{kind=Node}": 3,
        "follow_problems{kind=Node}": 1,
    }


@pytest.mark.parametrize(
    ("phase", "applied"),
    [(PushPhase.APPLIED, 1), (PushPhase.WITHDRAWN, 1), (PushPhase.REJECTED, 0), (PushPhase.WAITING, 0)],
)
def test_the_configuration(phase: PushPhase, applied: int) -> None:
    """All results and states are there from the start, so that alerts have something to go by."""
    pusher: Any = SimpleNamespace(outcomes=Counter(accepted=2), state=PushState(phase=phase), last_success=None)
    relay: Any = SimpleNamespace(up=True)
    found = shown(config_collector(pusher, relay)())
    assert found["config_applied"] == applied
    assert found["config_pushes_total{result=accepted}"] == 2
    assert found["config_pushes_total{result=rejected}"] == 0
    assert found[f"config_state{{state={phase}}}"] == 1
    assert sum(value for name, value in found.items() if name.startswith("config_state")) == 1
    assert found["config_last_success_timestamp_seconds"] == 0
    assert found["relay_up"] == 1


@pytest.mark.parametrize(("phase", "valid"), [(SloPhase.NONE, 1), (SloPhase.REJECTED, 0)])
def test_the_file_of_the_hook_server(phase: SloPhase, valid: int) -> None:
    """No NodeSLO is not a wrong one."""
    feed: Any = SimpleNamespace(slo=SloState(phase=phase), outcomes=Counter(failed=1), problem="disk is full")
    assert shown(feed_collector(feed)()) == {
        "nodeslo_valid": valid,
        "node_state_writes_total{result=failed}": 1,
        "node_state_writes_total{result=written}": 0,
        "node_state_stale": 1,
    }


def test_reports_and_calls() -> None:
    """As they were counted."""
    reporter: Any = SimpleNamespace(results=Counter({("event", "written"): 2}), pending=("condition",))
    assert shown(report_collector(reporter, ["event"])()) == {
        "reports_total{kind=event,result=failed}": 0,
        "reports_total{kind=event,result=written}": 2,
        "reports_pending": 1,
    }
    service = SimpleNamespace(calls=Counter({("GetNode", "OK"): 3}))
    served: Any = SimpleNamespace(service=service, refused=1)
    assert shown(service_collector(served)()) == {
        "node_service_calls_total{method=GetNode,code=OK}": 3,
        "node_service_refused_total": 1,
    }
