"""Names and numbers become ids; what does not exist is named."""

import pytest

from interpose.errors import ConfigError
from interpose.host.users import FileOwner, parse_allowed_uids, parse_owner


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("root", FileOwner(0, None)),
        ("root:root", FileOwner(0, 0)),
        (":root", FileOwner(None, 0)),
        ("4242", FileOwner(4242, None)),
        ("4242:4343", FileOwner(4242, 4343)),
        ("4294967294:0", FileOwner(4294967294, 0)),
    ],
)
def test_owner_forms(text: str, expected: FileOwner) -> None:
    """A missing half stays as it is; numbers need not exist in the databases."""
    assert parse_owner(text, "--socket-owner") == expected


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "neither user nor group"),
        (":", "neither user nor group"),
        ("root:", "no group after the colon"),
        ("no-such-user", "no user 'no-such-user'"),
        ("root:no-such-group", "no group 'no-such-group'"),
        ("4294967295", "the largest is 4294967294"),
        ("0:" + "9" * 5000, "the largest is"),
        ("-1", "no user '-1'"),
        ("a\0b", "no user"),
        ("root:root:root", "no group 'root:root'"),
    ],
)
def test_bad_owners_are_refused_with_the_flag(text: str, hint: str) -> None:
    """The message names the flag and the part that does not exist."""
    with pytest.raises(ConfigError) as caught:
        parse_owner(text, "--socket-owner")

    assert str(caught.value).startswith("--socket-owner: ")
    assert hint in str(caught.value)


def test_allow_list_takes_names_and_numbers() -> None:
    """Both forms of the same user are one entry."""
    assert parse_allowed_uids(["root", " 0", "4242"], "--allow") == frozenset({0, 4242})
    assert parse_allowed_uids([], "--allow") == frozenset()


def test_allow_list_reports_every_bad_entry() -> None:
    """One run shows all mistakes."""
    with pytest.raises(ConfigError) as caught:
        parse_allowed_uids(["nobody-here", "root", "nor-here", ""], "--allow")

    assert caught.value.problems == [
        "--allow: there is no user 'nobody-here' on this machine",
        "--allow: there is no user 'nor-here' on this machine",
        "--allow: there is no user '' on this machine",
    ]
