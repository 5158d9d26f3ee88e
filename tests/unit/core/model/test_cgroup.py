"""Formulas behind values, and how CRI writes them."""

import pytest

from interpose.core.model.cgroup import (
    CLEAR,
    UNLIMITED,
    KubeQos,
    Parameter,
    Value,
    cri_value,
    find_kube_qos,
    kube_qos_of,
    quota_of,
    scaled_quota,
    shares_of,
    to_cri,
)
from interpose.core.model.resources import LinuxResources

# milli-CPUs, shares, quota, quota at a ratio of 1.2. Where the kernel refuses what koordlet wrote (834) it is clamped.
VECTORS = [
    (0, 2, UNLIMITED, UNLIMITED),
    (8, 8, 1000, 1000),
    (100, 102, 10_000, 8_334),
    (250, 256, 25_000, 20_834),
    (500, 512, 50_000, 41_667),
    (1000, 1024, 100_000, 83_334),
    (1500, 1536, 150_000, 125_000),
    (2000, 2048, 200_000, 166_667),
    (4000, 4096, 400_000, 333_334),
    (256_000, 262_144, 25_600_000, 21_333_334),
]


@pytest.mark.parametrize(("milli", "shares", "quota", "scaled"), VECTORS)
def test_vectors(milli: int, shares: int, quota: Value, scaled: Value) -> None:
    """The table everybody knows."""
    assert shares_of(milli) == shares
    assert quota_of(milli) == quota
    assert scaled_quota(quota_of(milli), 1.2) == scaled


@pytest.mark.parametrize(("milli", "shares"), [(-5, 2), (1, 2), (300_000, 262_144)])
def test_shares_stay_within_what_the_kernel_takes(milli: int, shares: int) -> None:
    """Nothing asked for is the least there is."""
    assert shares_of(milli) == shares


@pytest.mark.parametrize("ratio", [-1.0, 0.0, 0.5, 1.0])
def test_a_ratio_that_is_not_above_one_changes_nothing(ratio: float) -> None:
    """A slow node does not get more than was asked for."""
    assert scaled_quota(100_000, ratio) == 100_000


def test_quota_follows_the_period() -> None:
    """Kubelets can be told another one."""
    assert quota_of(500, period=20_000) == 10_000


@pytest.mark.parametrize(
    ("parent", "qos"),
    [
        ("/kubepods/besteffort/podx", KubeQos.BEST_EFFORT),
        ("kubepods-burstable-podx.slice", KubeQos.BURSTABLE),
        ("/kubepods/podx", KubeQos.GUARANTEED),
        ("", KubeQos.GUARANTEED),
    ],
)
def test_the_place_of_a_pod_tells_its_class(parent: str, qos: KubeQos) -> None:
    """Nothing else in CRI does."""
    assert kube_qos_of(parent) is qos


SLICES = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice"


@pytest.mark.parametrize(
    ("parent", "qos"),
    [
        ("/kubepods/besteffort/pod1-2", KubeQos.BEST_EFFORT),
        ("/kubepods/burstable/pod1-2/abc", KubeQos.BURSTABLE),
        ("/kubepods/pod1-2", KubeQos.GUARANTEED),
        (SLICES, KubeQos.BURSTABLE),
        (f"{SLICES}/cri-containerd-abc.scope", KubeQos.BURSTABLE),
        ("kubepods-besteffort-pod1_2.slice", KubeQos.BEST_EFFORT),
        ("/kubepods.slice/kubepods-pod1_2.slice", KubeQos.GUARANTEED),
        ("/kubelet/kubepods/burstable/pod1-2", KubeQos.BURSTABLE),
        ("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1_2.slice", KubeQos.GUARANTEED),
        ("/besteffort.slice/kubepods/pod1-2", KubeQos.GUARANTEED),
        ("/kubepods/podbesteffort", KubeQos.GUARANTEED),
        ("/kubepods/besteffort", KubeQos.BEST_EFFORT),
        ("/kubepods", None),
        ("/kubepods/other/pod1-2", None),
        ("/docker/besteffort", None),
        ("system-burstable.slice", None),
        ("/burstable", None),
        ("", None),
    ],
)
def test_only_the_directory_below_kubepods_tells_a_class(parent: str, qos: KubeQos | None) -> None:
    """With either driver, below any root; a path of somebody else tells nothing."""
    assert find_kube_qos(parent) is qos


@pytest.mark.parametrize(
    ("parameter", "resources", "value"),
    [
        (Parameter.CPU_QUOTA, LinuxResources(cpu_quota=-1), UNLIMITED),
        (Parameter.CPU_QUOTA, LinuxResources(cpu_quota=5000), 5000),
        (Parameter.CPU_QUOTA, LinuxResources(), None),
        (Parameter.MEMORY_LIMIT, LinuxResources(memory_limit_in_bytes=-1), UNLIMITED),
        (Parameter.CPUSET_CPUS, LinuxResources(cpuset_cpus="0-1"), "0-1"),
        (Parameter.CPUSET_CPUS, LinuxResources(), None),
        (Parameter.OOM_SCORE_ADJ, LinuxResources(), 0),
        (Parameter.OOM_SCORE_ADJ, LinuxResources(oom_score_adj=-5), -5),
    ],
)
def test_what_cri_says(parameter: Parameter, resources: LinuxResources, value: Value | None) -> None:
    """Zero and empty are "not set", but a score of zero is one."""
    assert cri_value(resources, parameter) == value


@pytest.mark.parametrize(
    ("parameter", "value", "raw"),
    [
        (Parameter.CPU_QUOTA, UNLIMITED, -1),
        (Parameter.CPU_QUOTA, CLEAR, 0),
        (Parameter.CPUSET_MEMS, CLEAR, ""),
        (Parameter.CPUSET_CPUS, "1", "1"),
        (Parameter.CPU_SHARES, 7, 7),
    ],
)
def test_how_cri_says_it(parameter: Parameter, value: Value, raw: int | str) -> None:
    """The other way round."""
    assert to_cri(parameter, value) == raw


def test_special_values_are_words() -> None:
    """They are shown as words in reports."""
    assert (str(UNLIMITED), str(CLEAR)) == ("unlimited", "clear")
