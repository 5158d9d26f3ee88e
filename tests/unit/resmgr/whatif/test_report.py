"""Outcomes as plain values."""

import json

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Setup
from interpose.core.policy.registry import make
from interpose.resmgr.whatif.replay import replay_calls
from interpose.resmgr.whatif.report import outcome_document, time_text
from tests.support.policy.machines import machine
from tests.support.policy.recalled_node import Story


def test_an_outcome_is_json() -> None:
    """With everything that people and scripts ask for."""
    story = Story()
    story.run("web", 100, "burstable", cpus="0-15")
    story.run("db", 2000)
    story.run("big", 20000)
    policy = make("static", Setup(topology=machine("n4c16"), reserved=CpuSet.parse("0")))
    found = json.loads(json.dumps(outcome_document("static", replay_calls(policy, story.happenings))))
    assert found["policy"] == "static"
    assert found["summary"]["placed"] == 2
    assert found["summary"]["began"] == "2025-11-16T09:00:01.000000Z"
    assert found["summary"]["verdicts"]["refused now"] == 1
    assert found["pools"]["shared"] == "0-1,4-15"
    web, db, big = found["steps"]
    assert web["before"]["cpus"] is None
    assert web["assignment"]["cpus"] == "0-15"
    assert db["moved"] == [
        {
            "container": "default/web/app",
            "before": {"cpus": "0-15", "mems": None, "shares": None, "quota": None},
            "after": {"cpus": "0-1,4-15", "mems": None, "shares": None, "quota": None},
            "running": True,
        }
    ]
    assert db["changed"] == ["default/web/app"]
    assert big["refused"]
    assert big["reason"] == big["refusal"]["message"]
    assert [comparison["verdict"] for comparison in found["compared"]] == ["same", "nothing given", "refused now"]
    assert found["compared"][2]["now"] is None
    assert found["stays"][0]["cpus"] == "2-3"


def test_an_outcome_without_a_decision_has_no_pools() -> None:
    """Nothing was asked of the policy."""
    policy = make("none", Setup(topology=machine("n4c16")))
    found = outcome_document("none", replay_calls(policy, []))
    assert (found["steps"], found["pools"], found["summary"]["agreement"]) == ([], {}, None)


def test_times_are_utc() -> None:
    """To the microsecond, also before the epoch."""
    assert time_text(1_763_283_600_000_001_999) == "2025-11-16T09:00:00.000001Z"
    assert time_text(-1) == "1969-12-31T23:59:59.999999Z"
