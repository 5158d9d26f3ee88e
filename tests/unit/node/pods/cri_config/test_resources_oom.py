"""Scores for the kernel's choice of whom to kill."""

from fractions import Fraction

import pytest

from interpose.node.pods.cri_config.resources import oom_score_adj
from interpose.node.pods.spec import ContainerSpec, PodSpec, ResourceRequirements, RestartPolicy

NODE = 4_000_000_000


def container(memory: int | None = None, *, name: str = "c", sidecar: bool = False) -> ContainerSpec:
    """A container that asks for so many bytes."""
    requests = {} if memory is None else {"memory": Fraction(memory)}
    policy = RestartPolicy.ALWAYS if sidecar else None
    return ContainerSpec(name=name, image="i", resources=ResourceRequirements(requests=requests), restart_policy=policy)


@pytest.mark.parametrize(
    ("memory", "score"),
    [
        (1, 999),
        (NODE // 2000, 999),
        (NODE // 1000, 999),
        (NODE // 500, 998),
        (NODE // 4, 750),
        (NODE // 2, 500),
        (NODE - NODE // 1000, 3),
        (NODE, 3),
        (NODE * 2, 3),
    ],
)
def test_a_burstable_container_by_its_request(memory: int, score: int) -> None:
    """The more it asks for the safer; never as safe as Guaranteed, always safer than BestEffort."""
    one = container(memory)
    assert oom_score_adj(PodSpec(name="p", uid="u", containers=(one,)), one, NODE) == score


def test_a_container_without_a_request_in_a_burstable_pod() -> None:
    """Just below BestEffort."""
    one, other = container(), container(1000, name="d")
    assert oom_score_adj(PodSpec(name="p", uid="u", containers=(one, other)), one, NODE) == 999


def test_the_two_other_classes() -> None:
    """Fixed scores."""
    guaranteed = ContainerSpec(
        name="c", image="i", resources=ResourceRequirements(limits={"cpu": Fraction(1), "memory": Fraction(1)})
    )
    assert oom_score_adj(PodSpec(name="p", uid="u", containers=(guaranteed,)), guaranteed, NODE) == -997
    assert oom_score_adj(PodSpec(name="p", uid="u", containers=(container(),)), container(), NODE) == 1000


def test_a_pod_that_the_node_needs_is_as_safe_as_guaranteed() -> None:
    """By its priority class, whatever it asks for."""
    pod = PodSpec(name="p", uid="u", containers=(container(),), priority_class="system-node-critical")
    assert oom_score_adj(pod, container(), NODE) == -997
    pod = PodSpec(name="p", uid="u", containers=(container(),), priority_class="system-cluster-critical")
    assert oom_score_adj(pod, container(), NODE) == 1000


@pytest.mark.parametrize(
    ("own", "regular", "score"),
    [
        (None, (NODE // 2, NODE // 4), 750),
        (NODE // 2, (NODE // 4, NODE // 4), 500),
        (NODE // 10, (None, NODE // 2), 900),
    ],
)
def test_a_sidecar_does_not_go_before_those_it_serves(
    own: int | None, regular: tuple[int | None, ...], score: int
) -> None:
    """Its score is at most that of the one that asks for least."""
    side = container(own, name="s", sidecar=True)
    mains = tuple(container(memory, name=f"m{index}") for index, memory in enumerate(regular))
    pod = PodSpec(name="p", uid="u", containers=mains, init_containers=(side,))
    assert oom_score_adj(pod, side, NODE) == score


@pytest.mark.parametrize(
    ("of_pod", "score"),
    [
        (ResourceRequirements(), 900),
        (ResourceRequirements(requests={"memory": Fraction(NODE // 2)}), 750),
        (ResourceRequirements(requests={"memory": Fraction(NODE // 20)}), 900),
        (ResourceRequirements(limits={"memory": Fraction(NODE // 2)}), 750),
    ],
)
def test_what_the_pod_asks_for_beyond_its_containers_is_shared(of_pod: ResourceRequirements, score: int) -> None:
    """In equal parts, with the init containers."""
    one = container(NODE // 10)
    pod = PodSpec(
        name="p", uid="u", containers=(one,), init_containers=(container(NODE // 10, name="i"),), resources=of_pod
    )
    assert oom_score_adj(pod, one, NODE) == score
