"""Who a process is."""

from typing import Any

import pytest

from interpose.cri.messages import cri
from interpose.node.runtime.oci.spec_types import SpecError
from interpose.node.runtime.oci.users import ResolvedUser, parse, resolve

PASSWD = """# a comment: with:colons:1:2
root:x:0:0:root:/root:/bin/sh
broken
web:x:33:44::/srv:/bin/sh
odd:x:x:1::/:
odder:x:1:x::/:
web:x:99:99::/:
"""
GROUP = """# comment:x:1:root
root:x:0:
broken
staff:x:50:web,root
odd:x:x:web
docs:x:60:web
"""


def _resolve(image: str = "", **context: Any) -> ResolvedUser:
    return resolve(cri.LinuxContainerSecurityContext(**context), image, PASSWD, GROUP)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (0, 0, (50,), "root")),
        ("0", (0, 0, (50,), "root")),
        ("web", (33, 44, (50, 60), "web")),
        ("33", (33, 44, (50, 60), "web")),
        ("1000", (1000, 0, (), "")),
        ("1000:7", (1000, 7, (), "")),
        ("web:staff", (33, 50, (50, 60), "web")),
        ("web:", (33, 44, (50, 60), "web")),
        (":7", (0, 7, (50,), "root")),
    ],
)
def test_users_as_images_say_them(text: str, expected: tuple[int, int, tuple[int, ...], str]) -> None:
    """Names and numbers; the files add group and groups."""
    uid, gid, groups, name = expected
    assert parse(text, PASSWD, GROUP) == ResolvedUser(uid=uid, gid=gid, groups=groups, name=name)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nobody", "'nobody' is not in the image's /etc/passwd"),
        ("web:nogroup", "'nogroup' is not in the image's /etc/group"),
        ("2147483648", "too large for a uid"),
        ("1:2147483648", "too large for a gid"),
        ("-1", "'-1' is not in"),
        ("odd", "'odd' is not in"),
        ("9" * 5000, "too large for a uid"),
    ],
)
def test_users_that_cannot_be_had(text: str, problem: str) -> None:
    """The one that is missing is named."""
    with pytest.raises(SpecError, match=problem):
        parse(text, PASSWD, GROUP)


def test_entries_with_numbers_that_no_kernel_has_count_for_nothing() -> None:
    """However long they are: whoever made the image wrote them."""
    huge = "9" * 5000
    passwd = f"web:x:{huge}:1::/:\nweb:x:1:2147483648::/:\nweb:x:3:4::/:\n"
    group = f"big:x:{huge}:web\nbig:x:2147483648:web\nstaff:x:50:web\n"
    assert parse("web", passwd, group) == ResolvedUser(uid=3, gid=4, groups=(50,), name="web")


def test_no_files_at_all() -> None:
    """Numbers still work."""
    assert parse("5:6", "", "") == ResolvedUser(uid=5, gid=6)


def test_the_configuration_replaces_the_images_user() -> None:
    """By number and by name; the group is the user's, not the image's."""
    assert _resolve("web:staff", run_as_user=cri.Int64Value(value=7)).gid == 0
    assert _resolve("", run_as_username="web").gid == 44


def test_user_zero_is_a_user() -> None:
    """Not to be taken for "nothing said"."""
    assert _resolve("web", run_as_user=cri.Int64Value(value=0)).uid == 0


def test_a_group_of_the_configuration() -> None:
    """It is the primary one, and first among the groups."""
    found = _resolve("", run_as_user=cri.Int64Value(value=33), run_as_group=cri.Int64Value(value=5))
    assert (found.gid, found.groups) == (5, (5, 50, 60))


def test_a_group_without_a_user_is_refused() -> None:
    """As CRI has it."""
    with pytest.raises(SpecError, match="run_as_group"):
        _resolve("web", run_as_group=cri.Int64Value(value=5))


def test_groups_merged_and_strict() -> None:
    """Those of the image's file come with the first policy only; none twice."""
    assert _resolve("web", supplemental_groups=[9, 50]).groups == (44, 9, 50, 60)
    strict = cri.SupplementalGroupsPolicy.Strict
    assert _resolve("web", supplemental_groups=[9], supplemental_groups_policy=strict).groups == (44, 9)


def test_a_policy_nobody_knows() -> None:
    """It is named."""
    with pytest.raises(SpecError, match="supplemental_groups_policy: 7"):
        _resolve(supplemental_groups_policy=7)


@pytest.mark.parametrize("field", ["run_as_user", "run_as_group"])
@pytest.mark.parametrize("value", [-1, 1 << 31])
def test_numbers_out_of_range(field: str, value: int) -> None:
    """Field and value are named."""
    context: dict[str, Any] = {"run_as_user": cri.Int64Value(value=1), field: cri.Int64Value(value=value)}
    with pytest.raises(SpecError, match=f"{field}: {value}"):
        _resolve(**context)
