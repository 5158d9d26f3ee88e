"""Which capabilities a process gets."""

from typing import Any

import pytest

from interpose.cri.messages import cri
from interpose.node.runtime.oci.capabilities import ALL, DEFAULT, from_mask, sets
from interpose.node.runtime.oci.spec_types import SpecError


def _sets(privileged: bool = False, ours: tuple[str, ...] = ALL, **wanted: Any) -> dict[str, list[str]]:
    return sets(cri.Capability(**wanted), privileged=privileged, ours=ours)


def test_a_mask_of_the_kernel_has_names() -> None:
    """Bit n is the n-th name; unknown bits are passed over."""
    assert from_mask(0b100001 | 1 << 60) == ("CAP_CHOWN", "CAP_KILL")
    assert from_mask((1 << 41) - 1) == ALL


def test_nothing_said_is_the_default() -> None:
    """In three sets; nothing is handed on to programs of others."""
    found = _sets()
    assert set(found["bounding"]) == set(DEFAULT)
    assert found["bounding"] == found["effective"] == found["permitted"]
    assert set(found) == {"bounding", "effective", "permitted"}


def test_names_are_taken_as_people_write_them() -> None:
    """With or without CAP_, in any case."""
    found = _sets(add_capabilities=["net_admin", "CAP_SYS_TIME"], drop_capabilities=["Kill"])
    assert set(found["effective"]) == {*DEFAULT, "CAP_NET_ADMIN", "CAP_SYS_TIME"} - {"CAP_KILL"}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"drop_capabilities": ["ALL"]}, set()),
        ({"drop_capabilities": ["ALL"], "add_capabilities": ["CHOWN"]}, {"CAP_CHOWN"}),
        ({"add_capabilities": ["ALL"]}, set(ALL)),
        ({"add_capabilities": ["ALL"], "drop_capabilities": ["CHOWN"]}, set(ALL) - {"CAP_CHOWN"}),
    ],
)
def test_all_of_them(wanted: dict[str, Any], expected: set[str]) -> None:
    """ALL added and dropped, with single ones against it."""
    assert set(_sets(**wanted)["bounding"]) == expected


def test_ambient_ones_are_inheritable_too() -> None:
    """And in all other sets."""
    found = _sets(add_ambient_capabilities=["NET_ADMIN"])
    assert found["ambient"] == found["inheritable"] == ["CAP_NET_ADMIN"]
    assert "CAP_NET_ADMIN" in found["effective"]


def test_all_ambient_but_what_is_dropped() -> None:
    """ALL stands for what we have."""
    found = _sets(ours=("CAP_CHOWN", "CAP_KILL"), add_ambient_capabilities=["ALL"], drop_capabilities=["KILL"])
    assert found["ambient"] == ["CAP_CHOWN"]


def test_privileged_is_all_that_we_have() -> None:
    """Whatever else is said."""
    found = _sets(privileged=True, ours=("CAP_KILL", "CAP_CHOWN"), drop_capabilities=["ALL"])
    assert found == {kind: ["CAP_CHOWN", "CAP_KILL"] for kind in ("bounding", "effective", "permitted")}


def test_what_we_lack_is_missing_from_the_default() -> None:
    """A runtime with less gives less."""
    assert _sets(ours=("CAP_CHOWN", "CAP_BPF"))["bounding"] == ["CAP_CHOWN"]


def test_asking_for_what_we_lack_is_an_error() -> None:
    """It names capability and field; dropping it is fine."""
    with pytest.raises(SpecError, match=r"add_capabilities: CAP_BPF cannot be given"):
        _sets(ours=DEFAULT, add_capabilities=["BPF"])
    assert _sets(ours=DEFAULT, drop_capabilities=["BPF"])


def test_what_is_no_capability() -> None:
    """Named as it was written."""
    with pytest.raises(SpecError, match=r"drop_capabilities: 'FLY' is not a capability"):
        _sets(drop_capabilities=["FLY"])
