"""Available and reserved CPUs on a machine, and exclusions that depend on it."""

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Setup
from interpose.core.policy.constraints import ExcludedCpus, make_setup
from interpose.core.topology.synthetic import parse_text
from interpose.errors import ConfigError

MACHINE = parse_text("1 sockets x 8 cores x 1 threads; offline 7")


def cpus(text: str) -> CpuSet:
    """These CPUs."""
    return CpuSet.parse(text)


def but(text: str) -> ExcludedCpus:
    """All CPUs but these."""
    return ExcludedCpus(cpus(text))


@pytest.mark.parametrize(
    ("available", "reserved"),
    [(None, None), (cpus("1-3"), 750), (cpus("0-9"), cpus("9"))],
)
def test_what_names_cpus_is_taken_as_it_is(available: CpuSet | None, reserved: CpuSet | int | None) -> None:
    """Also CPUs that the machine does not have: they are for the policy to refuse."""
    assert make_setup(MACHINE, available, reserved) == Setup(topology=MACHINE, available=available, reserved=reserved)


@pytest.mark.parametrize(
    ("available", "reserved", "usable", "kept"),
    [
        (but("0-1"), None, "2-6", None),  # CPU 7 is offline
        (but("0,99"), but("0-4"), "1-6", "5-6"),  # reserved: available without the list
        (cpus("4-7"), but("5-6"), "4-7", "4"),
        (None, but("0-5"), None, "6"),
    ],
)
def test_exclusions_are_what_is_left(
    available: CpuSet | ExcludedCpus | None, reserved: ExcludedCpus | None, usable: str | None, kept: str | None
) -> None:
    """Available: of what is online. Reserved: of what is available and online."""
    found = make_setup(MACHINE, available, reserved)
    assert found.available == (None if usable is None else cpus(usable))
    assert found.reserved == (None if kept is None else cpus(kept))


@pytest.mark.parametrize(
    ("available", "reserved", "problem"),
    [
        (but("0-7"), but("0"), "available CPUs: exclude-cpuset:0-7 leaves none of the online CPUs 0-6"),
        (cpus("2-3"), but("2-3"), "reserved CPUs: exclude-cpuset:2-3 leaves none of the available CPUs 2-3"),
    ],
)
def test_an_exclusion_of_everything_is_refused(
    available: CpuSet | ExcludedCpus, reserved: ExcludedCpus, problem: str
) -> None:
    """A policy without CPUs, or without the reserved ones that were asked for, is not what anybody meant."""
    with pytest.raises(ConfigError) as caught:
        make_setup(MACHINE, available, reserved)
    assert caught.value.problems == [problem]
