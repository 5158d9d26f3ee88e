"""Decisions as plain values: everything of them, fit for JSON."""

import json

from interpose.core.cpuallocator.cost import Candidate
from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Action, Assignment, Decision, Grant, Refusal, RefusalKind, decision_record
from interpose.core.policy.request import Amounts, Key, Request, RequestSource
from interpose.core.topology.hints import TopologyHint

KEY, OTHER, STRANGER = Key("pod-1", "app"), Key("pod-2", "web"), Key("pod-3", "gone", 4)


def test_a_decision_is_told_completely() -> None:
    """Request, candidates, grant, what follows from it and for whom else."""
    cpus = CpuSet.parse("2-3")
    decision = Decision(
        action=Action.ALLOCATE,
        key=KEY,
        grant=Grant(exclusive=cpus, mems=CpuSet.of((0,)), envs={"A": "1"}, command=("run",), details={"pool": "x"}),
        reason="there is room",
        candidates=(Candidate(name="NUMA node 0", cpus=cpus, score="2 free", chosen=True, reason="it fits"),),
        changed=(OTHER, STRANGER),
    )
    request = Request(
        key=KEY,
        namespace="shop",
        pod="web",
        qos=KubeQos.GUARANTEED,
        amounts=Amounts(milli=2000, limit_milli=2000, memory=5, extended={"x/y": 1}, source=RequestSource.ANNOTATION),
        pod_amounts=Amounts(milli=4000, memory_limit=7),
        hints=(TopologyHint(provider="/sys/devices/a", cpus=CpuSet.parse("0-3"), nodes=CpuSet.of((1,))),),
    )
    record = decision_record(decision, request, Assignment(cpus=cpus), {OTHER: "shop/web/other"})
    assert json.loads(json.dumps(record)) == {
        "container": "shop/web/app",
        "key": "pod-1/app/0",
        "action": "allocate",
        "reason": "there is room",
        "request": {
            "qos": "Guaranteed",
            "cpu_milli": 2000,
            "cpu_limit_milli": 2000,
            "memory": 5,
            "memory_limit": None,
            "extended": {"x/y": 1},
            "source": "annotation",
            "pod": {"cpu_milli": 4000, "cpu_limit_milli": None, "memory": None, "memory_limit": 7},
            "hints": [{"provider": "/sys/devices/a", "cpus": "0-3", "nodes": "1", "packages": ""}],
        },
        "candidates": [{"name": "NUMA node 0", "cpus": "2-3", "score": "2 free", "chosen": True, "why": "it fits"}],
        "grant": {
            "exclusive": "2-3",
            "pools": [],
            "pinned": True,
            "mems": "0",
            "shares": None,
            "quota": None,
            "milli": 0,
            "envs": {"A": "1"},
            "command": ["run"],
            "details": {"pool": "x"},
        },
        "refusal": None,
        "assignment": {"cpus": "2-3", "mems": None, "shares": None, "quota": None},
        "changed": ["shop/web/other", "pod-3/gone/4"],
    }


def test_a_refusal_is_told_with_its_kind() -> None:
    """And there is no grant."""
    decision = Decision(action=Action.RESIZE, key=KEY, refusal=Refusal(kind=RefusalKind.EXHAUSTED, message="too few"))
    record = decision_record(decision, Request(key=KEY), Assignment(), {})
    assert record["refusal"] == {"why": "exhausted", "message": "too few"}
    assert record["grant"] is None


def test_a_release_is_told_without_a_request() -> None:
    """By the title that is known, else by the key."""
    decision = Decision(action=Action.RELEASE, key=KEY, grant=Grant(pinned=False))
    assert decision_record(decision, None, Assignment(), {KEY: "shop/web/app"})["container"] == "shop/web/app"
    record = decision_record(decision, None, Assignment(), {})
    assert record["container"] == "pod-1/app/0"
    assert record["request"] is None
    assert record["grant"]["command"] is None
