"""Numbers for the kernel, with the values of the kubelet's own tests and more."""

from fractions import Fraction
from typing import Any, TypeAlias

import pytest

from interpose.core.model.quantity import parse_quantity
from interpose.core.model.resources import NO_RESOURCES, LinuxResources
from interpose.node.pods.cri_config.resources import (
    ResourceRules,
    container_linux_resources,
    overhead_linux_resources,
    page_size_name,
    pod_cgroup_resources,
    pod_limits,
    pod_linux_resources,
    pod_memory_limit,
    pod_requests,
)
from interpose.node.pods.spec import ContainerSpec, PodSpec, ResourceRequirements, RestartPolicy

Texts: TypeAlias = dict[str, str]

MI = 1024 * 1024
RULES = ResourceRules(memory=4096 * MI)


def resources(requests: Texts | None = None, limits: Texts | None = None) -> ResourceRequirements:
    """As in a manifest."""
    return ResourceRequirements(
        requests={name: parse_quantity(text) for name, text in (requests or {}).items()},
        limits={name: parse_quantity(text) for name, text in (limits or {}).items()},
    )


def container(own: ResourceRequirements, name: str = "c", policy: RestartPolicy | None = None) -> ContainerSpec:
    """A container."""
    return ContainerSpec(name=name, image="i", resources=own, restart_policy=policy)


def given(own: ResourceRequirements, rules: ResourceRules = RULES, **of_pod: Any) -> LinuxResources:
    """What the one container of a pod gets."""
    one = container(own)
    return container_linux_resources(PodSpec(name="p", uid="u", containers=(one,), **of_pod), one, rules)


@pytest.mark.parametrize(
    ("requests", "limits", "shares", "quota", "memory"),
    [
        ({"cpu": "1", "memory": "128Mi"}, {"cpu": "2", "memory": "128Mi"}, 1024, 200_000, 128 * MI),
        ({}, {"cpu": "2", "memory": "128Mi"}, 2048, 200_000, 128 * MI),
        ({"cpu": "0"}, {"cpu": "2", "memory": "128Mi"}, 2, 200_000, 128 * MI),
        ({}, {}, 2, 0, 0),
        ({"cpu": "1m"}, {}, 2, 0, 0),
        ({"cpu": "2m"}, {}, 2, 0, 0),
        ({"cpu": "3m"}, {}, 3, 0, 0),
        ({"cpu": "100m"}, {}, 102, 0, 0),
        ({"cpu": "1500m"}, {}, 1536, 0, 0),
        ({"cpu": "1000"}, {}, 262_144, 0, 0),
        ({"cpu": "0.0001"}, {}, 2, 0, 0),
        ({}, {"cpu": "5m"}, 5, 1000, 0),
        ({}, {"cpu": "10m"}, 10, 1000, 0),
        ({}, {"cpu": "200m"}, 204, 20_000, 0),
        ({}, {"cpu": "1500m"}, 1536, 150_000, 0),
        ({"cpu": "1"}, {"memory": "1.5"}, 1024, 0, 2),
    ],
)
def test_shares_quota_and_limit(requests: Texts, limits: Texts, shares: int, quota: int, memory: int) -> None:
    """Row by row."""
    found = given(resources(requests, limits))
    assert (found.cpu_shares, found.cpu_quota, found.memory_limit_in_bytes) == (shares, quota, memory)
    assert found.cpu_period == 100_000
    assert found.unified == {}


def test_another_period() -> None:
    """The quota is per period, with the same smallest value."""
    rules = ResourceRules(memory=1, period=10_000)
    found = given(resources(limits={"cpu": "50m"}), rules)
    assert (found.cpu_period, found.cpu_quota) == (10_000, 1000)
    assert given(resources(limits={"cpu": "2"}), rules).cpu_quota == 20_000


def test_no_quota_where_the_node_has_none() -> None:
    """Neither quota nor period; shares stay."""
    found = given(resources(limits={"cpu": "2"}), ResourceRules(memory=1, cpu_quota=False))
    assert (found.cpu_shares, found.cpu_quota, found.cpu_period) == (2048, 0, 0)


def test_limits_of_the_pod_where_a_container_has_none() -> None:
    """Each for itself."""
    of_pod = resources(limits={"cpu": "3", "memory": "1Gi"})
    found = given(resources({"cpu": "1"}), resources=of_pod)
    assert (found.cpu_shares, found.cpu_quota, found.memory_limit_in_bytes) == (1024, 300_000, 1024 * MI)
    found = given(resources(limits={"cpu": "1"}), resources=of_pod)
    assert (found.cpu_quota, found.memory_limit_in_bytes) == (100_000, 1024 * MI)


def test_the_score_is_among_them() -> None:
    """It is made of the request for memory."""
    assert given(resources({"memory": "2Gi"})).oom_score_adj == 500
    assert given(resources()).oom_score_adj == 1000


@pytest.mark.parametrize(
    ("version", "swap", "unified", "swap_limit"),
    [
        (1, False, {}, 0),
        (1, True, {}, 64 * MI),
        (2, False, {"memory.oom.group": "1", "memory.min": "0", "memory.low": "0"}, 0),
        (2, True, {"memory.oom.group": "1", "memory.min": "0", "memory.low": "0", "memory.swap.max": "0"}, 0),
    ],
)
def test_no_swap_and_one_end_for_all_processes(version: int, swap: bool, unified: Texts, swap_limit: int) -> None:
    """In the words of either version of cgroups."""
    rules = ResourceRules(memory=4096 * MI, cgroup_version=version, swap=swap)
    found = given(resources(limits={"memory": "64Mi"}), rules)
    assert (found.unified, found.memory_swap_limit_in_bytes) == (unified, swap_limit)


def test_huge_pages_are_limited_for_every_size_of_the_machine() -> None:
    """To zero unless asked for; a size that the machine does not have is left out."""
    rules = ResourceRules(memory=1, hugepage_sizes=("2MB", "1GB"))
    asked = {"hugepages-2Mi": "100Mi", "hugepages-4Mi": "4Mi", "cpu": "1"}
    assert given(resources(limits=asked), rules).hugepage_limits == (("2MB", 100 * MI), ("1GB", 0))


@pytest.mark.parametrize(
    ("size", "name"),
    [(2 * MI, "2MB"), (1024 * MI, "1GB"), (64 * 1024, "64KB"), (1023, "1023B"), (0, "0B"), (1024**6, "1024PB")],
)
def test_names_of_page_sizes(size: int, name: str) -> None:
    """As cgroups call them."""
    assert page_size_name(size) == name


# -- sums


def test_regular_containers_are_added_up() -> None:
    """Requests that are missing are the limits; limits only where given."""
    pod = PodSpec(
        name="p",
        uid="u",
        containers=(
            container(resources({"cpu": "1", "memory": "10"}), "a"),
            container(resources({"cpu": "2"}, {"cpu": "3", "memory": "5"}), "b"),
        ),
    )
    assert pod_requests(pod) == {"cpu": 3, "memory": 15}
    assert pod_limits(pod) == {"cpu": 3, "memory": 5}


@pytest.mark.parametrize(
    ("init", "total"),
    [
        ([("1", False)], "4"),
        ([("7", False)], "7"),
        ([("1", True)], "5"),
        ([("2", True), ("3", False)], "6"),
        ([("2", True), ("7", False)], "9"),
        ([("7", False), ("2", True)], "7"),
        ([("2", True), ("7", False), ("3", True)], "9"),
        ([("2", True), ("6", False), ("3", True), ("8", False)], "13"),
    ],
)
def test_init_containers_count_while_they_run(init: list[tuple[str, bool]], total: str) -> None:
    """Sidecars beside all that comes after them; the most at any time is what the pod needs."""
    always = RestartPolicy.ALWAYS
    early = tuple(
        container(resources({"cpu": cpu}), f"i{index}", always if stays else None)
        for index, (cpu, stays) in enumerate(init)
    )
    pod = PodSpec(name="p", uid="u", containers=(container(resources({"cpu": "4"})),), init_containers=early)
    assert pod_requests(pod) == {"cpu": parse_quantity(total)}


def test_amounts_of_the_pod_stand_for_the_sums() -> None:
    """Resource by resource; what the pod does not say is the sum."""
    pod = PodSpec(
        name="p",
        uid="u",
        containers=(container(resources({"cpu": "1", "memory": "5"}, {"cpu": "2"})),),
        resources=resources({"cpu": "4"}, {"memory": "9"}),
    )
    assert pod_requests(pod) == {"cpu": 4, "memory": 9}
    assert pod_limits(pod) == {"cpu": 2, "memory": 9}


def test_the_pod_as_a_whole() -> None:
    """Shares of its requests, quota and memory of its limits, nothing else."""
    pod = PodSpec(
        name="p",
        uid="u",
        containers=(
            container(resources({"cpu": "1"}, {"cpu": "2", "memory": "1Mi"}), "a"),
            container(resources({"cpu": "500m"}, {"cpu": "1", "memory": "1Mi"}), "b"),
        ),
        overhead={"cpu": Fraction(1, 4), "memory": Fraction(MI)},
    )
    assert pod_linux_resources(pod, RULES) == LinuxResources(
        cpu_shares=1536, cpu_period=100_000, cpu_quota=300_000, memory_limit_in_bytes=2 * MI
    )
    assert overhead_linux_resources(pod, RULES) == LinuxResources(
        cpu_shares=256, cpu_period=100_000, cpu_quota=25_000, memory_limit_in_bytes=MI
    )


def test_a_pod_without_amounts_and_overhead() -> None:
    """The least shares; nothing at all for the sandbox."""
    pod = PodSpec(name="p", uid="u", containers=(container(resources()),))
    assert pod_linux_resources(pod, RULES) == LinuxResources(cpu_shares=2, cpu_period=100_000)
    assert overhead_linux_resources(pod, RULES) is NO_RESOURCES


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (None, LinuxResources(cpu_shares=204)),
        (resources(limits={"cpu": "1"}), LinuxResources(cpu_shares=1024, cpu_quota=100_000, cpu_period=100_000)),
        (resources(limits={"memory": "64Mi"}), LinuxResources(cpu_shares=204, memory_limit_in_bytes=64 * MI)),
    ],
)
def test_the_cgroup_of_a_pod_has_limits_that_hold_for_all(
    own: ResourceRequirements | None, expected: LinuxResources
) -> None:
    """Of two containers one has none; a limit of the pod itself counts alone."""
    one = container(resources({"cpu": "100m"}, {"cpu": "1", "memory": "16Mi"}), "one")
    two = container(resources({"cpu": "100m"}), "two")
    pod = PodSpec(name="p", uid="u", containers=(one, two), resources=own)
    assert pod_cgroup_resources(pod, RULES) == expected
    assert pod_memory_limit(pod) == expected.memory_limit_in_bytes


def test_the_memory_of_a_pod_where_all_have_limits() -> None:
    """The sum, and what the sandbox itself costs."""
    both = tuple(container(resources(limits={"memory": "16Mi"}), name) for name in "ab")
    pod = PodSpec(name="p", uid="u", containers=both, overhead={"memory": Fraction(MI)})
    assert pod_memory_limit(pod) == 33 * MI
    assert pod_memory_limit(PodSpec(name="p", uid="u", containers=())) == 0
