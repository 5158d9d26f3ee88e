"""Requests of containers: where amounts and class come from, and what is not believed."""

import json
from dataclasses import replace
from typing import Any

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.pod import Container, Pod
from interpose.core.model.resources import LinuxResources
from interpose.core.policy.request import Amounts, Key, Request, RequestSource
from interpose.resmgr.container_request import ANNOTATIONS, make_request, resize_amounts

GIB = 1 << 30
TWO = LinuxResources(
    cpu_shares=2048, cpu_quota=200_000, cpu_period=100_000, memory_limit_in_bytes=GIB, oom_score_adj=-997
)
HALF = LinuxResources(cpu_shares=512, oom_score_adj=999)
GUARANTEED, BURSTABLE, BEST_EFFORT = "/kubepods/podx", "/kubepods/burstable/podx", "/kubepods/besteffort/podx"


def pod(said: Any = None, parent: str = BURSTABLE, **more: Any) -> Pod:
    """A pod; `said` is what the webhook says about its container."""
    annotations = {} if said is None else {ANNOTATIONS[0]: json.dumps({"containers": {"main": said}})}
    return Pod(id="p1", name="web", namespace="prod", cgroup_parent=parent, annotations=annotations, **more)


def container(resources: LinuxResources = HALF, **more: Any) -> Container:
    """A container of it, which has what was asked for."""
    asked = more.pop("requested", resources)
    return Container(id="c1", pod_id="p1", name="main", attempt=2, resources=resources, requested=asked, **more)


def amounts(cpu: Any, memory: Any = "1Gi") -> Any:
    """The same as request and limit."""
    both = {"cpu": cpu, "memory": memory}
    return {"requests": both, "limits": both}


def test_a_request_has_everything_a_policy_may_ask_for() -> None:
    """Variables that no policy reads, or that are not text, are left out; of two of a name the last counts."""
    envs = (("STP_POOL", b"1"), ("CMK_A", b"\xff"), ("STP_POOL", "ä".encode()), ("SECRET", b"x"))
    made = make_request(
        container(envs=envs), pod(labels={"app": "web"}), command=["run"], args=["-v"], capacity=1_000_000
    )
    assert made.request == Request(
        key=Key("p1", "main", 2),
        namespace="prod",
        pod="web",
        qos=KubeQos.BURSTABLE,
        amounts=Amounts(milli=500, memory=1000),
        pod_labels={"app": "web"},
        envs={"STP_POOL": "ä"},
        command=("run",),
        args=("-v",),
    )
    assert made.problems == ()


def test_a_container_without_its_pod_takes_the_one_it_is_given() -> None:
    """The create request names the pod beside the container."""
    assert make_request(replace(container(), pod_id=""), pod()).request.key == Key("p1", "main", 2)


def test_the_annotation_is_exact() -> None:
    """And agrees with what the kubelet asked for."""
    said = {**amounts("2"), "requests": {"cpu": "2", "memory": "512Mi", "x.io/y": "1"}}
    made = make_request(container(TWO), pod(said))
    assert made.problems == ()
    assert made.request.amounts == Amounts(
        milli=2000,
        limit_milli=2000,
        memory=GIB // 2,
        memory_limit=GIB,
        extended={"x.io/y": 1},
        quota=True,
        source=RequestSource.ANNOTATION,
    )


@pytest.mark.parametrize(
    ("asked", "said", "milli", "limit", "problem"),
    [
        (
            HALF,
            amounts("4"),
            500,
            None,
            "4000m CPU are not believed, the kubelet asked for 512 CPU shares, which are 5",
        ),
        (TWO, amounts("1"), 2000, 2000, "1000m CPU are not believed, the kubelet asked for 2048 CPU shares, which are"),
        (LinuxResources(cpu_shares=2), amounts("4"), 0, None, "4000m CPU are not believed"),
        (
            TWO,
            {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}},
            2000,
            2000,
            "a limit of 3000m CPU is not believed, the kubelet asked for a quota of 200000, which is 2000m",
        ),
    ],
)
def test_cpu_the_kubelet_did_not_ask_for_is_not_believed(
    asked: LinuxResources, said: Any, milli: int, limit: int | None, problem: str
) -> None:
    """A text gives nobody CPUs."""
    made = make_request(container(asked), pod(said))
    assert (made.request.milli, made.request.amounts.limit_milli) == (milli, limit)
    assert made.request.amounts.source is RequestSource.ESTIMATE
    assert len(made.problems) == 1
    assert made.problems[0].startswith(f"annotation intel.com/resources: containers['main']: {problem}")


def test_without_a_quota_the_limit_is_believed() -> None:
    """Kubelets can be told to set none."""
    made = make_request(container(replace(TWO, cpu_quota=-1)), pod(amounts("2")))
    assert (made.problems, made.request.amounts.limit_milli) == ((), 2000)


def test_without_shares_the_annotation_is_believed() -> None:
    """There is nothing to compare it with."""
    made = make_request(container(LinuxResources(memory_limit_in_bytes=-1)), pod(amounts("2")))
    assert (made.problems, made.request.milli) == ((), 2000)


def test_a_memory_limit_the_kubelet_did_not_ask_for_is_not_believed() -> None:
    """CPU still is, and what nobody else tells."""
    said = amounts("2", "8Gi")
    said["limits"] = {**said["limits"], "x.io/y": 1}
    made = make_request(container(TWO), pod(said, GUARANTEED))
    assert made.request.amounts == Amounts(
        milli=2000,
        limit_milli=2000,
        memory=GIB,
        memory_limit=GIB,
        extended={"x.io/y": 1},
        quota=True,
        source=RequestSource.ANNOTATION,
    )
    problem = "a memory limit of 8589934592 is not believed, the kubelet asked for 1073741824"
    assert made.problems == (f"annotation intel.com/resources: containers['main']: {problem}",)


def test_what_hook_servers_changed_plays_no_part() -> None:
    """Neither for what is believed nor for what is guessed: the kubelet's wish is what the node accounts for."""
    batch = container(TWO, requested=LinuxResources(cpu_shares=2, oom_score_adj=1000))
    made = make_request(batch, pod(amounts("2"), BEST_EFFORT))
    assert (made.request.milli, len(made.problems)) == (0, 1)
    changed = container(HALF, requested=TWO)
    assert make_request(changed, pod(amounts("2"))).problems == ()
    assert make_request(changed, pod(), requested=LinuxResources(cpu_shares=1024)).request.milli == 1000
    nothing = container(TWO, requested=LinuxResources())
    assert make_request(nothing, pod(None, GUARANTEED)).request.amounts == Amounts(milli=0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not valid JSON"),
        ('{"containers": {"other": {}}}', "says nothing about container 'main'"),
        ('{"containers": {"main": {"requests": {"cpu": "x"}}}}', "containers['main'].requests['cpu']: 'x' is no"),
    ],
)
def test_an_annotation_that_says_nothing_leaves_the_estimate(text: str, problem: str) -> None:
    """The problem is reported with the request."""
    made = make_request(container(), replace(pod(), annotations={ANNOTATIONS[1]: text}))
    assert made.request.amounts == Amounts(milli=500)
    assert len(made.problems) == 1
    assert problem in made.problems[0]
    assert made.problems[0].startswith("annotation noderesource.dev/resources")


@pytest.mark.parametrize(
    ("parent", "qos"),
    [
        (GUARANTEED, KubeQos.GUARANTEED),
        (BURSTABLE, KubeQos.BURSTABLE),
        ("kubepods-besteffort-podx.slice", KubeQos.BEST_EFFORT),
    ],
)
def test_the_directory_tells_the_class(parent: str, qos: KubeQos) -> None:
    """Whatever the annotation says; and it is the directory the kubelet asked for that counts."""
    assert make_request(container(TWO), pod(amounts("2"), parent)).request.qos is qos
    moved = pod(amounts("2"), "/elsewhere/besteffort", requested_cgroup_parent=parent)
    assert make_request(container(TWO), moved).request.qos is qos


def test_without_a_directory_the_annotation_tells_the_class() -> None:
    """If it is believed."""
    assert make_request(container(TWO), pod({"requests": {"cpu": "2"}}, "")).request.qos is KubeQos.BURSTABLE
    forged = make_request(container(LinuxResources(cpu_shares=2)), pod(amounts("4"), "/x"))
    assert forged.request.qos is KubeQos.BEST_EFFORT


def test_without_either_the_amounts_tell_the_class() -> None:
    """Also if another container's part of the annotation is wrong."""
    assert make_request(container(TWO), pod(None, "")).request.qos is KubeQos.GUARANTEED
    text = json.dumps({"containers": {"main": amounts("2"), "other": []}})
    made = make_request(container(TWO), replace(pod(None, ""), annotations={ANNOTATIONS[0]: text}))
    assert made.request.qos is KubeQos.GUARANTEED
    assert made.request.amounts.source is RequestSource.ANNOTATION
    assert made.problems == (
        "annotation intel.com/resources: containers['other']: expected a group of keys, found a list",
    )


# -- resizing

OLD = Amounts(milli=1, limit_milli=1500, memory=GIB, memory_limit=2 * GIB, extended={"x.io/y": 1}, quota=True)


def asks(old: Amounts = OLD, qos: KubeQos = KubeQos.BURSTABLE) -> Request:
    """A request with these amounts."""
    return Request(key=Key("p", "c"), qos=qos, amounts=old)


BEFORE = LinuxResources(cpu_shares=2, cpu_quota=150_000, cpu_period=100_000, memory_limit_in_bytes=2 * GIB)


@pytest.mark.parametrize(
    "update",
    [
        LinuxResources(),
        LinuxResources(cpuset_cpus="0-3"),
        LinuxResources(cpu_shares=2),
        LinuxResources(cpu_quota=150_000, cpu_period=100_000),
        LinuxResources(cpu_quota=75_000, cpu_period=50_000),
        LinuxResources(memory_limit_in_bytes=2 * GIB),
    ],
)
def test_an_update_that_says_the_same_changes_nothing(update: LinuxResources) -> None:
    """The exact numbers stay, where CRI has only rounded ones."""
    request = asks()
    assert resize_amounts(request, update, BEFORE) is request.amounts


@pytest.mark.parametrize(
    ("update", "changed"),
    [
        (LinuxResources(cpu_shares=1024), {"milli": 1000}),
        (LinuxResources(cpu_quota=50_000), {"limit_milli": 500}),
        (LinuxResources(cpu_period=50_000), {"limit_milli": 3000}),
        (LinuxResources(cpu_quota=-1), {"limit_milli": None, "quota": False}),
        (LinuxResources(memory_limit_in_bytes=4 * GIB), {"memory_limit": 4 * GIB}),
        (LinuxResources(memory_limit_in_bytes=GIB // 2), {"memory_limit": GIB // 2, "memory": None}),
        (LinuxResources(memory_limit_in_bytes=-1), {"memory_limit": None}),
    ],
)
def test_an_update_changes_what_it_sets(update: LinuxResources, changed: dict[str, Any]) -> None:
    """All other amounts stay as they are."""
    assert resize_amounts(asks(), update, BEFORE) == replace(OLD, **changed, source=RequestSource.RESIZE)


def test_a_memory_request_nobody_knows_stays_so() -> None:
    """A limit does not tell it."""
    update = LinuxResources(memory_limit_in_bytes=GIB)
    assert resize_amounts(asks(replace(OLD, memory=None)), update, BEFORE).memory is None


def test_of_a_guaranteed_container_limit_and_request_go_together() -> None:
    """With a quota or without."""
    old = Amounts(milli=2000, limit_milli=2000, memory=GIB, memory_limit=GIB, quota=True)
    new = replace(old, milli=4000, limit_milli=4000, memory=2 * GIB, memory_limit=2 * GIB, source=RequestSource.RESIZE)
    update = LinuxResources(cpu_shares=4096, cpu_quota=400_000, memory_limit_in_bytes=2 * GIB)
    assert resize_amounts(asks(old, KubeQos.GUARANTEED), update, TWO) == new
    old, new = replace(old, quota=False), replace(new, quota=False)
    for quota in (0, -1):
        update = replace(update, cpu_quota=quota)
        assert resize_amounts(asks(old, KubeQos.GUARANTEED), update, replace(TWO, cpu_quota=quota)) == new
    request = asks(old, KubeQos.GUARANTEED)
    assert resize_amounts(request, LinuxResources(cpu_shares=2048, cpu_quota=-1), TWO) is old


def test_a_resize_beyond_what_shares_tell() -> None:
    """From 300 to 400 CPUs the shares stay the same, only the limit of a Guaranteed container tells."""
    before = replace(TWO, cpu_shares=262_144, cpu_quota=30_000_000)
    old = Amounts(milli=300_000, limit_milli=300_000, memory=GIB, memory_limit=GIB)
    update = LinuxResources(cpu_shares=262_144, cpu_quota=40_000_000, cpu_period=100_000)
    new = resize_amounts(asks(old, KubeQos.GUARANTEED), update, before)
    assert (new.milli, new.limit_milli) == (400_000, 400_000)
    assert resize_amounts(asks(old, KubeQos.BURSTABLE), update, before).milli == 300_000


def test_extended_resources_cannot_be_checked() -> None:
    """They are believed although nothing else the annotation says is."""
    said = {"requests": {"cpu": "64", "cmk.intel.com/exclusive-cores": "2"}}
    made = make_request(container(), pod(said))
    assert made.request.milli == 500
    assert made.request.amounts.extended == {"cmk.intel.com/exclusive-cores": 2}
    assert made.problems
