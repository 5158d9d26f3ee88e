"""One table for both versions of cgroups: what is written, what is read, and what counts as the same."""

import pytest

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Parameter, Value, shares_of
from interpose.host.cgroup.parameters import (
    TABLE,
    curved_weight_of,
    parse,
    render,
    same,
    same_by_runtime,
    shares_of_weight,
    weight_of,
)

NOT_HERE = {
    Parameter.OOM_SCORE_ADJ,
    Parameter.CORE_SCHED,
    Parameter.RESCTRL,
    Parameter.SCHED_GROUP_IDENTITY,
    Parameter.SCHED_CORE,
}


def test_every_parameter_of_a_cgroup_has_a_row() -> None:
    """The table has the parameters of cgroups and only those."""
    assert TABLE.keys() == set(Parameter) - NOT_HERE


@pytest.mark.parametrize(
    ("milli", "shares", "weight"),
    [
        (0, 2, 1),
        (8, 8, 1),
        (100, 102, 4),
        (250, 256, 10),
        (500, 512, 20),
        (1000, 1024, 39),
        (1500, 1536, 59),
        (2000, 2048, 79),
        (4000, 4096, 157),
        (256_000, 262_144, 10_000),
    ],
)
def test_shares_are_a_weight_on_v2(milli: int, shares: int, weight: int) -> None:
    """The conversion that container runtimes use."""
    assert shares_of(milli) == shares
    assert render(Parameter.CPU_SHARES, shares, 1) == str(shares)
    assert render(Parameter.CPU_SHARES, shares, 2) == str(weight)
    assert weight_of(shares) == weight


@pytest.mark.parametrize(
    ("shares", "weight"), [(0, 1), (2, 1), (1024, 100), (2000, 170), (262_144, 10_000), (1 << 20, 10_000)]
)
def test_newer_runtimes_have_another_weight(shares: int, weight: int) -> None:
    """runc 1.4 has weight 170 for 2000 shares; the ends and the defaults of both versions meet."""
    assert curved_weight_of(shares) == weight
    assert same_by_runtime(Parameter.CPU_SHARES, parse(Parameter.CPU_SHARES, str(weight), 2), shares, 2)


@pytest.mark.parametrize(("weight", "shares"), [(0, 2), (1, 2), (39, 999), (79, 2047), (10_000, 262_144)])
def test_a_weight_is_read_as_shares(weight: int, shares: int) -> None:
    """The least that have it. A group that is idle has weight 0 on some kernels."""
    assert shares_of_weight(weight) == shares
    assert parse(Parameter.CPU_SHARES, f"{weight}\n", 2) == shares


@pytest.mark.parametrize(
    ("parameter", "value", "v1", "v2"),
    [
        (Parameter.CPU_QUOTA, 50_000, "50000", "50000"),
        (Parameter.CPU_QUOTA, UNLIMITED, "-1", "max"),
        (Parameter.CPU_QUOTA, CLEAR, "-1", "max"),
        (Parameter.CPU_PERIOD, 100_000, "100000", "100000"),
        (Parameter.CPU_BURST, 0, "0", "0"),
        (Parameter.CPU_BURST, CLEAR, "0", "0"),
        (Parameter.CPU_IDLE, 1, "1", "1"),
        (Parameter.CPU_BVT, -1, "-1", "-1"),
        (Parameter.CPUSET_CPUS, "0-7,8-15", "0-15", "0-15"),
        (Parameter.CPUSET_CPUS, CLEAR, "\n", "\n"),
        (Parameter.CPUSET_MEMS, "1,0", "0-1", "0-1"),
        (Parameter.MEMORY_LIMIT, 5000, "5000", "5000"),
        (Parameter.MEMORY_LIMIT, UNLIMITED, "-1", "max"),
        (Parameter.MEMORY_LIMIT, CLEAR, "-1", "max"),
    ],
)
def test_what_is_written(parameter: Parameter, value: Value, v1: str, v2: str) -> None:
    """By version. Nothing is written as nothing: that would not reach the kernel."""
    assert (render(parameter, value, 1), render(parameter, value, 2)) == (v1, v2)


@pytest.mark.parametrize(
    ("parameter", "version", "text", "value"),
    [
        (Parameter.CPU_SHARES, 1, "1024\n", 1024),
        (Parameter.CPU_QUOTA, 1, "-1\n", UNLIMITED),
        (Parameter.CPU_QUOTA, 1, "25000\n", 25_000),
        (Parameter.CPU_QUOTA, 2, "max 100000\n", UNLIMITED),
        (Parameter.CPU_QUOTA, 2, "25000 50000\n", 25_000),
        (Parameter.CPU_PERIOD, 1, "50000\n", 50_000),
        (Parameter.CPU_PERIOD, 2, "max 50000\n", 50_000),
        (Parameter.CPU_PERIOD, 2, "max\n", 100_000),
        (Parameter.CPU_BURST, 2, "0\n", 0),
        (Parameter.CPU_BVT, 1, "-1\n", -1),
        (Parameter.CPUSET_CPUS, 2, "0-3,8\n", "0-3,8"),
        (Parameter.CPUSET_CPUS, 2, "\n", CLEAR),
        (Parameter.CPUSET_MEMS, 1, "0\n", "0"),
        (Parameter.MEMORY_LIMIT, 1, "9223372036854771712\n", UNLIMITED),
        (Parameter.MEMORY_LIMIT, 1, "9223372036854710272\n", UNLIMITED),  # pages of 64 KiB
        (Parameter.MEMORY_LIMIT, 1, "-1\n", UNLIMITED),
        (Parameter.MEMORY_LIMIT, 1, "4096\n", 4096),
        (Parameter.MEMORY_LIMIT, 2, "max\n", UNLIMITED),
        (Parameter.MEMORY_LIMIT, 2, "0\n", 0),
    ],
)
def test_what_is_read(parameter: Parameter, version: int, text: str, value: Value) -> None:
    """Magic numbers and words become values."""
    assert parse(parameter, text, version) == value


@pytest.mark.parametrize(
    ("parameter", "value", "said"),
    [
        (Parameter.CPU_SHARES, 1, "cpu.shares: 1 is not between 2 and 262144"),
        (Parameter.CPU_SHARES, UNLIMITED, "cpu.shares: cannot be unlimited"),
        (Parameter.CPU_SHARES, CLEAR, "cpu.shares: cannot be cleared"),
        (Parameter.CPU_SHARES, "512", "cpu.shares: '512' is not a whole number"),
        (Parameter.CPU_IDLE, True, "cpu.idle: 'True' is not a whole number"),
        (Parameter.CPU_QUOTA, 834, "cpu.cfs_quota_us: 834 is not between 1000 and 17592186044415"),
        (Parameter.CPU_QUOTA, -1, "cpu.cfs_quota_us: -1 is not between 1000 and 17592186044415"),
        (Parameter.CPU_BVT, 3, "cpu.bvt_warp_ns: 3 is not between -1 and 2"),
        (Parameter.CPU_PERIOD, 999, "cpu.cfs_period_us: 999 is not between 1000 and 1000000"),
        (Parameter.CPUSET_CPUS, 3, "cpuset.cpus: '3' is not a list"),
        (Parameter.CPUSET_CPUS, UNLIMITED, "cpuset.cpus: 'unlimited' is not a list"),
        (Parameter.CPUSET_CPUS, "", "cpuset.cpus: an empty list would leave nothing to run on"),
        (Parameter.CPUSET_CPUS, ",4-7", "cpuset.cpus: ',4-7' is not a list of CPUs"),
    ],
)
def test_what_no_kernel_takes_is_refused(parameter: Parameter, value: Value, said: str) -> None:
    """With parameter and value, before anything is written."""
    for version in (1, 2):
        with pytest.raises(ValueError) as refused:
            render(parameter, value, version)
        assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    ("parameter", "version", "text"),
    [
        (Parameter.CPU_SHARES, 1, "many"),
        (Parameter.CPU_QUOTA, 2, ""),
        (Parameter.CPU_QUOTA, 2, "\n"),
        (Parameter.CPUSET_CPUS, 2, "0-"),
        (Parameter.MEMORY_LIMIT, 1, "max"),
    ],
)
def test_a_text_no_kernel_writes_is_refused(parameter: Parameter, version: int, text: str) -> None:
    """With parameter and text."""
    with pytest.raises(ValueError, match=f"{parameter}: cannot read '"):
        parse(parameter, text, version)


@pytest.mark.parametrize("found", ["max 100000\n", "50000 100000\n", "50000\n", "\n"])
def test_the_period_is_written_with_the_quota_on_v2(found: str) -> None:
    """They are in one file, and the quota cannot be left out."""
    join = TABLE[Parameter.CPU_PERIOD].v2.join
    assert join is not None
    assert join("20000", found) == f"{(found.split() or ['max'])[0]} 20000"


@pytest.mark.parametrize(
    ("parameter", "found", "wanted", "version", "equal"),
    [
        (Parameter.CPU_SHARES, 999, 1024, 2, True),  # both have weight 39
        (Parameter.CPU_SHARES, 2598, 1024, 2, False),  # weight 100: only newer runtimes have that
        (Parameter.CPU_SHARES, 999, 1024, 1, False),
        (Parameter.CPU_SHARES, 2, 1024, 2, False),
        (Parameter.CPU_QUOTA, UNLIMITED, UNLIMITED, 2, True),
        (Parameter.CPU_QUOTA, UNLIMITED, CLEAR, 1, True),
        (Parameter.CPU_QUOTA, 100_000, UNLIMITED, 1, False),
        (Parameter.CPU_QUOTA, None, UNLIMITED, 1, False),
        (Parameter.CPU_BURST, 0, CLEAR, 1, True),
        (Parameter.CPU_SHARES, 2, CLEAR, 1, False),
        (Parameter.MEMORY_LIMIT, 4096, 5000, 1, True),
        (Parameter.MEMORY_LIMIT, 4096, 8192, 2, False),
        (Parameter.MEMORY_LIMIT, UNLIMITED, (1 << 63) - 1, 1, True),
        (Parameter.CPUSET_CPUS, "0-3", "0,1,2,3", 2, True),
        (Parameter.CPUSET_CPUS, "0-3", "0-2", 2, False),
        (Parameter.CPUSET_CPUS, CLEAR, CLEAR, 2, True),
        (Parameter.CPUSET_CPUS, "0-3", CLEAR, 2, False),
        (Parameter.CPUSET_CPUS, CLEAR, "0-3", 2, False),
        (Parameter.CPUSET_CPUS, "nonsense", "0-3", 2, False),
    ],
)
def test_same(parameter: Parameter, found: Value | None, wanted: Value, version: int, equal: bool) -> None:
    """What the kernel makes of a value counts as that value."""
    assert same(parameter, found, wanted, version) is equal


@pytest.mark.parametrize(
    ("parameter", "found", "wanted", "version", "equal"),
    [
        (Parameter.CPU_SHARES, 999, 1024, 2, True),  # weight 39, as older ones have it
        (Parameter.CPU_SHARES, 2598, 1024, 2, True),  # weight 100, as newer ones have it
        (Parameter.CPU_SHARES, 2625, 1024, 2, False),  # weight 101
        (Parameter.CPU_SHARES, 2598, 1024, 1, False),
        (Parameter.CPU_SHARES, None, 1024, 2, False),
        (Parameter.CPUSET_CPUS, "0-3", "0-2", 2, False),
    ],
)
def test_same_by_runtime(parameter: Parameter, found: Value | None, wanted: Value, version: int, equal: bool) -> None:
    """Either conversion of shares counts for a value that a runtime writes."""
    assert same_by_runtime(parameter, found, wanted, version) is equal


def test_same_knows_other_pages() -> None:
    """Some kernels have pages of 64 KiB."""
    assert same(Parameter.MEMORY_LIMIT, 65_536, 100_000, 2, page=65_536)
    assert not same(Parameter.MEMORY_LIMIT, 65_536, 100_000, 2)
