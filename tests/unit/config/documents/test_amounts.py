"""Every way to write how much of a machine is meant, and every way to get it wrong."""

import pytest

from interpose.config.documents.amounts import CpuAmount, parse_cpu_amount, parse_resources, show_resources
from interpose.core.model.cpuset import CpuSet
from interpose.errors import ConfigError


def cpus(text: str) -> CpuAmount:
    """These CPUs."""
    return CpuAmount(cpus=CpuSet.parse(text))


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1000m", CpuAmount(milli=1000)),
        ("1", CpuAmount(milli=1000)),
        ("0", CpuAmount(milli=0)),
        ("1.5", CpuAmount(milli=1500)),
        ("quantity:2", CpuAmount(milli=2000)),
        ("QUANTITY: 750m", CpuAmount(milli=750)),
        ("0,2", cpus("0,2")),
        ("0-3", cpus("0-3")),
        ("0-7:1/2", cpus("0,2,4,6")),
        ("cpuset:0-3,8", cpus("0-3,8")),
        ("cpuset:5", cpus("5")),
        ("exclude-cpuset:0,8", CpuAmount(excluded=CpuSet.parse("0,8"))),
        ("#3", cpus("3")),
        ("#3,4", cpus("3-4")),
        ("cgroup:/system.slice", CpuAmount(cgroup="/system.slice")),
        ("cgroup:system.slice", CpuAmount(cgroup="system.slice")),
        ("/sys/fs/cgroup/a:b", CpuAmount(cgroup="/sys/fs/cgroup/a:b")),
    ],
)
def test_amounts_are_written_in_many_ways(text: str, amount: CpuAmount) -> None:
    """Each form is read, with blanks around it too, and what it is shown as is read back."""
    assert parse_cpu_amount(f" {text} ", "flag") == amount
    assert parse_cpu_amount(str(amount), "flag") == amount


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cores:3", "'cores:3' is of the unknown kind 'cores', known are cpuset, exclude-cpuset, quantity, cgroup"),
        ("cpuset:", "the list of CPUs is empty"),
        ("exclude-cpuset:", "the list of CPUs is empty"),
        ("cpuset:a", "'a' is not a list of CPUs"),
        ("-1", "'-1' is not a list of CPUs"),
        ("3-1", "ends before it begins"),
        ("two", "'two' is not a quantity such as 500m, 1.5 or 1Gi; expected an amount"),
        ("quantity:-1", "'-1' is below zero"),
        ("", "'' is not a quantity"),
        ("cgroup:", "'' is not a directory of a cgroup"),
        ("/", "'/' is not a directory of a cgroup"),
        ("cgroup:../../etc", "'../../etc' is not a directory of a cgroup"),
        ("cgroup:a\nb", "is not a directory of a cgroup"),
    ],
)
def test_what_is_no_amount_is_named(text: str, message: str) -> None:
    """The message begins with the place and has the text."""
    with pytest.raises(ConfigError) as caught:
        parse_cpu_amount(text, "flag --x")
    assert caught.value.problems[0].startswith("flag --x: ")
    assert message in caught.value.problems[0]


def test_commas_inside_a_list_of_cpus_do_not_end_it() -> None:
    """Only a comma before the next domain does."""
    found = parse_resources("cpu=0,2-3, Memory = 1Gi,HugePages=2,cache=x,memory-bandwidth=50%", "flag")
    assert dict(found) == {
        "cpu": cpus("0,2-3"),
        "memory": "1Gi",
        "hugepages": "2",
        "cache": "x",
        "memory-bandwidth": "50%",
    }
    assert parse_resources(show_resources(found), "flag") == found


@pytest.mark.parametrize("text", ["", "  "])
def test_empty_text_says_nothing(text: str) -> None:
    """Unit files pass on variables that may be empty."""
    assert parse_resources(text, "flag") == {}
    assert show_resources({}) == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cpus=1", "'cpus=1' names 'cpus', the known domains are cpu, memory, hugepages, cache, memory-bandwidth"),
        ("cpu=1,disk=2", "'cpu=1,disk=2' names 'disk'"),
        ("cpu=1,cpu=2", "names cpu twice"),
        ("cpu==1", "'cpu==1' is not domain=value"),
        ("cpu=1=2", "'cpu=1=2' is not domain=value"),
        ("1000m", "'1000m' is not domain=value"),
        ("cpu=", "has no value for cpu"),
        ("cpu=foo", "'foo' is not a quantity"),
    ],
)
def test_what_is_no_specification_is_named(text: str, message: str) -> None:
    """Unknown and doubled domains, missing and doubled signs."""
    with pytest.raises(ConfigError) as caught:
        parse_resources(text, "flag --reserved-resources")
    assert caught.value.problems[0].startswith("flag --reserved-resources: ")
    assert message in caught.value.problems[0]


@pytest.mark.parametrize("given", [{}, {"milli": 1, "cgroup": "/a"}])
def test_an_amount_is_exactly_one_thing(given: dict[str, object]) -> None:
    """Neither none nor two."""
    with pytest.raises(ValueError, match="exactly one of"):
        CpuAmount(**given)  # type: ignore[arg-type]
