"""Requests of containers whose pod has amounts as a whole: what the kubelet sends for them, and what is theirs."""

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.pod import Container, Pod
from interpose.core.model.resources import NO_RESOURCES, LinuxResources
from interpose.core.policy.request import Amounts, Request, RequestSource
from interpose.node.pods.cri_config.resources import ResourceRules, container_linux_resources, pod_linux_resources
from interpose.node.pods.spec import ContainerSpec, PodSpec, ResourceRequirements
from interpose.resmgr.container_request import ANNOTATIONS, RequestResult, make_request, resize_amounts

GIB = 1 << 30
RULES = ResourceRules(memory=64 * GIB)
GUARANTEED, BURSTABLE = "/kubepods/podx", "/kubepods/burstable/podx"


def needs(cpu: str = "", memory: str = "", limit: str | None = None) -> ResourceRequirements:
    """Requests and limits, which are the same unless a CPU limit is given; empty: none."""
    requests = {name: Fraction(text) for name, text in (("cpu", cpu), ("memory", memory)) if text}
    limits = requests if limit is None else {**requests, "cpu": Fraction(limit)}
    return ResourceRequirements(requests=requests, limits={name: amount for name, amount in limits.items() if amount})


def spec(of_pod: ResourceRequirements, **containers: ResourceRequirements) -> PodSpec:
    """A pod that asks for so much, and its containers."""
    return PodSpec(
        uid="u",
        name="web",
        containers=tuple(ContainerSpec(name=name, image="", resources=own) for name, own in containers.items()),
        resources=of_pod,
    )


def text_of(needed: ResourceRequirements) -> Any:
    return {
        part: {name: str(amount) for name, amount in getattr(needed, part).items()} for part in ("requests", "limits")
    }


def annotation(pod: PodSpec) -> dict[str, str]:
    """What the webhook says about a pod."""
    containers = {container.name: text_of(container.resources) for container in pod.containers}
    whole = {} if pod.resources is None else {"resources": text_of(pod.resources)}
    return {ANNOTATIONS[0]: json.dumps({"containers": containers, **whole})}


def ask(
    pod: PodSpec,
    name: str,
    *siblings: Request,
    parent: str = GUARANTEED,
    said: bool = True,
    sandbox: LinuxResources | None = None,
) -> RequestResult:
    """What a relay makes of what a kubelet sends for a container; `said`: with the annotation of the webhook."""
    container = next(found for found in pod.containers if found.name == name)
    record = Pod(
        id="p1",
        name="web",
        cgroup_parent=parent,
        annotations=annotation(pod) if said else {},
        resources=pod_linux_resources(pod, RULES) if sandbox is None else sandbox,
    )
    sent = container_linux_resources(pod, container, RULES)
    made = Container(id=name, pod_id="p1", name=name, resources=sent, requested=sent)
    return make_request(made, record, capacity=64 * GIB, siblings=siblings)


WHOLE = spec(needs("4", str(GIB)), a=needs("1", "1024"), b=ResourceRequirements())
POD = Amounts(milli=4000, limit_milli=4000, memory=GIB, memory_limit=GIB, source=RequestSource.ANNOTATION)


def test_with_the_annotation_everything_is_known() -> None:
    """A container that asks for nothing itself has nothing but the limits of its pod."""
    own = ask(WHOLE, "a")
    assert own.problems == ()
    assert own.request.pod_amounts == POD
    assert own.request.amounts == Amounts(
        milli=1000, limit_milli=1000, memory=1024, memory_limit=1024, quota=True, source=RequestSource.ANNOTATION
    )
    other = ask(WHOLE, "b")
    assert other.problems == ()
    assert other.request.pod_amounts == POD
    assert other.request.amounts == Amounts(
        limit_milli=4000, memory=0, memory_limit=GIB, quota=True, source=RequestSource.ANNOTATION
    )
    assert other.request.qos is KubeQos.GUARANTEED


def test_the_class_is_that_of_the_pod() -> None:
    """Where the cgroup does not say: containers alone would be Burstable."""
    assert ask(WHOLE, "b", parent="").request.qos is KubeQos.GUARANTEED


def test_amounts_that_the_sandbox_does_not_have_are_not_believed() -> None:
    """Nobody gets CPUs for text: what the kubelet asked for counts."""
    forged = replace(WHOLE, resources=needs("400", str(GIB)))
    made = ask(forged, "b", sandbox=pod_linux_resources(WHOLE, RULES))
    assert made.request.pod_amounts is not None
    assert made.request.pod_amounts.milli == 4000
    problem = "resources: 400000m CPU of the pod are not believed, the kubelet asked for 4000m"
    assert made.problems[0] == f"annotation intel.com/resources: {problem}"


def test_a_limit_that_the_sandbox_does_not_have_is_not_believed() -> None:
    """Though the request is right."""
    forged = replace(WHOLE, resources=needs("4", str(GIB), limit="8"))
    made = ask(forged, "a", sandbox=pod_linux_resources(WHOLE, RULES))
    assert made.request.pod_amounts is not None
    assert made.request.pod_amounts.limit_milli == 4000


def test_cpu_that_a_pod_does_not_say_is_that_of_its_sandbox() -> None:
    """The sum of its containers; nothing is wrong with that."""
    made = ask(spec(needs(memory=str(GIB)), a=needs("1"), b=needs("500/1000")), "a", parent=BURSTABLE)
    assert made.problems == ()
    assert made.request.pod_amounts == Amounts(
        milli=1500, limit_milli=1500, memory=GIB, memory_limit=GIB, source=RequestSource.ESTIMATE
    )


def test_without_a_sandbox_that_says_anything_the_annotation_is_believed() -> None:
    """Kubelets before 1.23 do not send it, and have no such pods."""
    assert ask(WHOLE, "b", sandbox=NO_RESOURCES).request.pod_amounts == POD


def test_amounts_of_a_pod_that_cannot_be_read_are_named() -> None:
    """And those of the container still count."""
    record = Pod(
        id="p1", annotations={ANNOTATIONS[0]: '{"containers": {"a": {}}, "resources": {"limits": {"cpu": "x"}}}'}
    )
    made = make_request(Container(id="a", name="a"), record)
    assert made.request.pod_amounts is None
    assert "intel.com/resources: resources.limits['cpu']: 'x' is not a quantity" in made.problems[0]


def test_without_the_annotation_a_pod_shows_by_its_containers() -> None:
    """The first may be all that there is of its pod; the second one cannot be, and neither asks for anything itself."""
    pod = spec(needs("4", str(GIB)), a=ResourceRequirements(), b=ResourceRequirements())
    first = ask(pod, "a", said=False)
    assert first.request.pod_amounts is None
    assert first.request.milli == 4000
    second = ask(pod, "b", first.request, said=False)
    assert second.request.pod_amounts == Amounts(milli=4000, limit_milli=4000, memory=GIB, memory_limit=GIB, quota=True)
    assert second.request.amounts == Amounts(limit_milli=4000, memory_limit=GIB, quota=True)


def test_a_container_that_has_more_than_its_pod_shows_at_once() -> None:
    """Its request is the limit of a Burstable pod, which is more than that asks for."""
    pod = spec(needs("2", limit="4"), a=ResourceRequirements())
    made = ask(pod, "a", said=False, parent=BURSTABLE)
    assert made.request.pod_amounts is not None
    assert (made.request.pod_amounts.milli, made.request.milli, made.request.amounts.limit_milli) == (2000, 0, 4000)


def test_containers_that_ask_for_what_their_pod_asks_for_show_nothing() -> None:
    """Their sum is the pod's."""
    pod = replace(spec(needs(), a=needs("1", "1"), b=needs("3", "1")), resources=None)
    first = ask(pod, "a", said=False)
    assert ask(pod, "b", first.request, said=False).request.pod_amounts is None


def test_a_pod_beyond_shares_shows_nothing() -> None:
    """Shares do not say how much more than 256 CPUs it is."""
    pod = replace(spec(needs(), a=needs("200"), b=needs("200")), resources=None)
    unlimited = ResourceRules(memory=64 * GIB, cpu_quota=False)
    whole = pod_linux_resources(pod, unlimited)
    first = ask(pod, "a", said=False, parent=BURSTABLE, sandbox=whole)
    assert ask(pod, "b", first.request, said=False, parent=BURSTABLE, sandbox=whole).request.pod_amounts is None


@pytest.mark.parametrize(("name", "milli"), [("a", 2000), ("b", 0)])
def test_a_resize_gives_a_container_nothing_of_its_pod(name: str, milli: int) -> None:
    """The kubelet resizes those too that only have the limits of their pod."""
    larger = spec(needs("8", str(2 * GIB)), a=needs("2", "1024"), b=ResourceRequirements())
    made = ask(WHOLE, name).request
    update = container_linux_resources(larger, next(found for found in larger.containers if found.name == name), RULES)
    amounts = resize_amounts(made, update, container_linux_resources(WHOLE, WHOLE.containers[0], RULES))
    assert amounts.milli == milli
    assert amounts.limit_milli == (2000 if name == "a" else 8000)
