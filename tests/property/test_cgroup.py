"""Laws of cgroup values: what is written is found, nothing is lost by reading and writing back, no path leads out."""

from collections.abc import Sequence
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Parameter, Special, Value
from interpose.host.cgroup.parameters import MAX_WEIGHT, TABLE, parse, render, same, shares_of_weight, weight_of
from interpose.host.cgroup.paths import check_confined, find_child, pod_directory
from interpose.host.cgroup.tree import CgroupTree
from interpose.testing.kernel.cgroup import FakeKernel

versions = st.sampled_from([1, 2])
numbers = st.integers(-2, 3000) | st.integers(-(1 << 64), 1 << 64)
lists = st.text("0123456789-,: ", max_size=12)
anything: st.SearchStrategy[Value] = numbers | lists | st.sampled_from(Special)
sets = st.sets(st.integers(0, 7), min_size=1).map(lambda numbers: ",".join(map(str, numbers)))
pieces = st.text(st.characters(), max_size=6) | st.sampled_from(["", ".", "..", "a", "kubepods.slice", "\0"])


def valid(parameter: Parameter) -> st.SearchStrategy[Value]:
    """Values that a kernel takes, without any above or below."""
    row = TABLE[parameter]
    if row.is_list:
        values: st.SearchStrategy[Value] = sets if parameter is Parameter.CPUSET_CPUS else st.sampled_from(["0", "0-1"])
    else:
        values = st.integers(row.lowest, row.highest)
    more: Sequence[Value] = [UNLIMITED] * row.unlimited + [CLEAR] * (row.cleared is not None)
    return values | st.sampled_from(more) if more else values


settings_of_a_group = st.sampled_from(list(TABLE)).flatmap(lambda one: st.tuples(st.just(one), valid(one)))


@given(st.integers(1, MAX_WEIGHT))
def test_a_weight_survives_being_read_and_written(weight: int) -> None:
    """What was found can be put back exactly."""
    assert weight_of(shares_of_weight(weight)) == weight


@given(settings_of_a_group, versions)
def test_what_a_kernel_takes_is_found_as_what_was_wanted(setting: tuple[Parameter, Value], version: int) -> None:
    """And found again when it is written a second time: nothing is ever written for ever."""
    parameter, value = setting
    kernel = FakeKernel(version, bvt=True)
    kernel.make("pod/container")
    tree = CgroupTree(kernel, version=version, page=4096)
    tree.write("pod/container", parameter, value)
    found = tree.read("pod/container", parameter)
    assert tree.same(parameter, found, value)
    tree.write("pod/container", parameter, found)
    assert tree.read("pod/container", parameter) == found


@given(st.sampled_from(list(TABLE)), anything, versions)
def test_any_value_is_rendered_or_refused(parameter: Parameter, value: Value, version: int) -> None:
    """What is rendered is parsed as the same; a refusal names the parameter."""
    text = refusal = ""
    try:
        text = render(parameter, value, version)
    except ValueError as error:
        refusal = str(error)
    if not text:
        assert refusal.startswith(f"{parameter}: ")
        assert len(refusal) < 400
    elif TABLE[parameter].form(version).join is None:
        assert same(parameter, parse(parameter, text, version), value, version)


@given(st.sampled_from(list(TABLE)), st.text(st.characters(), max_size=20), versions)
def test_any_text_is_parsed_or_refused(parameter: Parameter, text: str, version: int) -> None:
    """Nothing else comes out."""
    with suppress(ValueError):
        assert parse(parameter, text, version) is not None


@given(st.sampled_from(list(TABLE)), anything, anything, versions)
def test_same_is_symmetric_and_never_fails(parameter: Parameter, one: Value, other: Value, version: int) -> None:
    """Whatever is compared."""
    assert same(parameter, one, other, version) == same(parameter, other, one, version)
    assert same(parameter, one, one, version)


@given(st.lists(pieces, max_size=5).map("/".join))
def test_no_parent_leads_out(parent: str) -> None:
    """It is a directory below the root, or refused."""
    with suppress(ValueError):
        directory = pod_directory(parent)
        assert check_confined(directory) == directory
        assert not directory.startswith("/")
        assert directory
        assert not {"", ".", ".."} & set(directory.split("/"))


@given(st.lists(st.text("ab-.scope", max_size=8), max_size=6), st.text("ab", min_size=1, max_size=3))
def test_a_child_that_is_found_is_one_of_them_and_has_the_id(children: list[str], container_id: str) -> None:
    """Never somebody else's."""
    found = find_child(children, container_id)
    assert found is None or (found in children and container_id in found)
