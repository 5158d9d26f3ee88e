"""Users and groups as people write them in flags: names or numbers, looked up once at the edge."""

import grp
import pwd
from collections.abc import Iterable
from typing import NamedTuple

from interpose.errors import ConfigError

# The largest id is the kernel's "no id" (-1): chown would silently ignore it.
_MAX_ID = 2**32 - 2


class FileOwner(NamedTuple):
    """The owner to give to a file; None leaves user or group as it is."""

    uid: int | None
    gid: int | None


def parse_owner(text: str, where: str) -> FileOwner:
    """`user`, `user:group` or `:group`, each a name or a number. `where` is the flag or key, for the message."""
    user, colon, group = text.partition(":")
    if not user and not group:
        raise ConfigError(f"{where}: {text!r} names neither user nor group, expected user, user:group or :group")
    if colon and not group:
        raise ConfigError(f"{where}: {text!r} has no group after the colon")
    return FileOwner(parse_uid(user, where) if user else None, parse_gid(group, where) if group else None)


def parse_uid(text: str, where: str) -> int:
    """A user name or number as a uid; a number needs no entry in the user database."""
    number = _parse_number(text, where)
    if number is not None:
        return number
    try:
        return pwd.getpwnam(text).pw_uid
    except (KeyError, ValueError):
        raise ConfigError(f"{where}: there is no user {text!r} on this machine") from None


def parse_gid(text: str, where: str) -> int:
    """A group name or number as a gid; a number needs no entry in the group database."""
    number = _parse_number(text, where)
    if number is not None:
        return number
    try:
        return grp.getgrnam(text).gr_gid
    except (KeyError, ValueError):
        raise ConfigError(f"{where}: there is no group {text!r} on this machine") from None


def parse_allowed_uids(entries: Iterable[str], where: str) -> frozenset[int]:
    """The users whose processes may connect; every bad entry is reported, not only the first."""
    allowed: set[int] = set()
    problems: list[str] = []
    for entry in entries:
        try:
            allowed.add(parse_uid(entry.strip(), where))
        except ConfigError as exc:
            problems += exc.problems
    if problems:
        raise ConfigError(problems)
    return frozenset(allowed)


def _parse_number(text: str, where: str) -> int | None:
    if not (text.isascii() and text.isdecimal()):
        return None
    # The length first: Python refuses to convert absurdly long numbers with an error of its own.
    if len(text) > 10 or int(text) > _MAX_ID:
        raise ConfigError(f"{where}: {text!r} is not an id, the largest is {_MAX_ID}")
    return int(text)
