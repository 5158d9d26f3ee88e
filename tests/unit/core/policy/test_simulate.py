"""Pods that do not exist get what they would get."""

from typing import Any

from interpose.core.model.cgroup import KubeQos
from interpose.core.policy.api import Policy, Setup
from interpose.core.policy.decision import Action
from interpose.core.policy.registry import make
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.simulate import (
    Member,
    PlannedPod,
    Role,
    SimulationStep,
    list_holdings,
    removal_steps,
    simulate,
    start_steps,
)
from tests.support.policy.machines import machine


def static() -> Policy:
    """A policy on a small machine."""
    return make("static", Setup(topology=machine("n4c16"), reserved=1000))


def request(pod: str, name: str = "c", milli: int = 2000) -> Request:
    return Request(key=Key(pod, name), namespace="ns", pod=pod, qos=KubeQos.GUARANTEED, amounts=Amounts(milli=milli))


def pod(*members: Member) -> PlannedPod:
    """A pod of them."""
    return PlannedPod(namespace="ns", name="p", members=members)


def shape(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What happened to whom."""
    return [(record["action"], record["container"]) for record in records]


INIT = Member(request=request("p", "init"), role=Role.INIT)
SIDECAR = Member(request=request("p", "sidecar"), role=Role.SIDECAR)
MAIN = Member(request=request("p", "main"))


def test_init_containers_end_before_the_others_start() -> None:
    """Sidecars stay until the pod is removed."""
    steps = list(start_steps(pod(INIT, SIDECAR, MAIN)))
    assert [(step.action.value, step.request.key.name) for step in steps] == [
        ("allocate", "init"),
        ("release", "init"),
        ("allocate", "sidecar"),
        ("allocate", "main"),
    ]


def test_removing_a_pod_releases_what_still_runs() -> None:
    """Init containers are gone already."""
    assert [step.request.key.name for step in removal_steps(pod(INIT, SIDECAR, MAIN))] == ["sidecar", "main"]
    assert pod().title == "ns/p"


def test_each_step_has_its_record() -> None:
    """CPUs that came back are given again."""
    policy = static()
    records = simulate(policy, start_steps(pod(INIT, MAIN)))
    assert shape(records) == [("allocate", "ns/p/init"), ("release", "ns/p/init"), ("allocate", "ns/p/main")]
    assert records[0]["assignment"]["cpus"] == records[2]["assignment"]["cpus"] != ""


def test_others_are_called_by_their_names() -> None:
    """Those whose CPUs became fewer."""
    shared = Request(key=Key("s", "c"), namespace="ns", pod="s")
    steps = [SimulationStep(action=Action.ALLOCATE, request=one) for one in (shared, request("a"))]
    assert simulate(static(), steps)[1]["changed"] == ["ns/s/c"]


def test_who_was_refused_is_not_released() -> None:
    """There is nothing to give back."""
    policy = static()
    huge = request("big", milli=99_000)
    steps = [SimulationStep(action=action, request=huge) for action in (Action.ALLOCATE, Action.RELEASE)]
    records = simulate(policy, steps)
    assert shape(records) == [("allocate", "ns/big/c")]
    assert records[0]["refusal"]["why"] in ("exhausted", "invalid")
    assert list_holdings(policy, [huge]) == []


def test_containers_can_be_resized() -> None:
    """They keep what they have and get more."""
    policy = static()
    small, large = request("a"), request("a", milli=4000)
    steps = [SimulationStep(action=Action.ALLOCATE, request=small), SimulationStep(action=Action.RESIZE, request=large)]
    simulate(policy, steps)
    [held] = list_holdings(policy, [large])
    assert len(policy.state.grants[large.key].exclusive) == 4
    assert (held["container"], held["cpu_milli"], held["exclusive"]) == ("ns/a/c", 4000, held["cpus"])


def test_holdings_are_of_those_asked_about() -> None:
    """In order of their coming."""
    policy = static()
    simulate(policy, [SimulationStep(action=Action.ALLOCATE, request=request(name)) for name in ("b", "a", "x")])
    assert [holding["container"] for holding in list_holdings(policy, [request("a"), request("b")])] == [
        "ns/b/c",
        "ns/a/c",
    ]
