"""The user of a process: users and groups by name or number, resolved with the image's files. Pure.

Texts are those of /etc/passwd and /etc/group in the image. Invalid lines are skipped, as login programs do. The first
line with a name or a number counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from interpose.node.runtime.oci.spec_types import SpecError

_LARGEST: Final = (1 << 31) - 1
_LONGEST: Final = 20
_PASSWD_FIELDS: Final = 4
_GROUP_FIELDS: Final = 4
_MERGE: Final = 0
_STRICT: Final = 1
_CONTEXT: Final = "linux.security_context"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedUser:
    """A user in numbers. `groups` are the supplemental ones; `name` is empty if the image knows none."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Account:
    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    name: str
    gid: int
    members: tuple[str, ...]


def resolve(context: Any, image_user: str, passwd: str, group: str) -> ResolvedUser:
    """The user of a container: `context` is CRI's security context, `image_user` the image's default.

    CRI's user replaces the image's with its group. A group of CRI needs a user of CRI.
    """
    wanted = image_user
    if context.HasField("run_as_user"):
        wanted = str(_number(context.run_as_user.value, "run_as_user"))
    elif context.run_as_username:
        wanted = context.run_as_username
    elif context.HasField("run_as_group"):
        raise SpecError(f"{_CONTEXT}.run_as_group", "is set, but neither run_as_user nor run_as_username")
    found = parse(wanted, passwd, group)
    gid = _number(context.run_as_group.value, "run_as_group") if context.HasField("run_as_group") else found.gid
    groups = [_number(group, "supplemental_groups") for group in context.supplemental_groups]
    policy = context.supplemental_groups_policy
    if policy not in (_MERGE, _STRICT):
        raise SpecError(f"{_CONTEXT}.supplemental_groups_policy", f"{policy} is not known")
    if policy == _MERGE:
        groups += found.groups
    # The primary group is one of them: a file that only that group may read stays readable when a program drops it.
    return ResolvedUser(uid=found.uid, gid=gid, groups=tuple(dict.fromkeys((gid, *groups))), name=found.name)


def parse(text: str, passwd: str, group: str) -> ResolvedUser:
    """Parse a user of an image: `name`, `uid`, `name:group`, `uid:gid` and so on; empty is root.

    Numbers need no entry in the files; names do.
    """
    user, _, of_group = text.partition(":")
    account = _account(user or "0", passwd)
    gid = _gid(of_group, group) if of_group else account.gid
    groups = tuple(entry.gid for entry in _groups(group) if account.name and account.name in entry.members)
    return ResolvedUser(uid=account.uid, gid=gid, groups=groups, name=account.name)


def _account(user: str, passwd: str) -> _Account:
    number = _digits(user)
    for account in _accounts(passwd):
        if account.uid == number or (number is None and account.name == user):
            return account
    if number is None:
        raise SpecError("user", f"{user!r} is not in the image's /etc/passwd")
    if number > _LARGEST:
        raise SpecError("user", f"{user!r} is too large for a uid")
    return _Account(name="", uid=number, gid=0)


def _gid(wanted: str, group: str) -> int:
    number = _digits(wanted)
    if number is not None:
        if number > _LARGEST:
            raise SpecError("user", f"{wanted!r} is too large for a gid")
        return number
    for entry in _groups(group):
        if entry.name == wanted:
            return entry.gid
    raise SpecError("user", f"{wanted!r} is not in the image's /etc/group")


def _accounts(text: str) -> Iterator[_Account]:
    for line in text.splitlines():
        fields = line.strip().split(":")
        if len(fields) < _PASSWD_FIELDS or line.startswith("#"):
            continue
        uid, gid = _digits(fields[2]), _digits(fields[3])
        if uid is not None and gid is not None and max(uid, gid) <= _LARGEST:
            yield _Account(name=fields[0], uid=uid, gid=gid)


def _groups(text: str) -> Iterator[_Group]:
    for line in text.splitlines():
        fields = line.strip().split(":")
        if len(fields) < _GROUP_FIELDS or line.startswith("#"):
            continue
        gid = _digits(fields[2])
        if gid is not None and gid <= _LARGEST:
            yield _Group(name=fields[0], gid=gid, members=tuple(filter(None, fields[3].split(","))))


def _digits(text: str) -> int | None:
    """A decimal number, or None; very long ones become one that is too large for an id."""
    if not (text.isascii() and text.isdigit()):
        return None
    return int(text) if len(text) <= _LONGEST else _LARGEST + 1


def _number(value: int, field: str) -> int:
    if not 0 <= value <= _LARGEST:
        raise SpecError(f"{_CONTEXT}.{field}", f"{value} is not between 0 and {_LARGEST}")
    return value
