"""The table of mounts as /proc/<pid>/mountinfo has it. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
_SEPARATOR: Final = "-"
_FIXED: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPoint:
    """A mount. `propagation` is shared, slave, private or unbindable."""

    path: str
    kind: str
    source: str
    root: str = "/"
    propagation: str = "private"
    options: str = ""


def parse(text: str) -> tuple[MountPoint, ...]:
    """All mounts in the order of the table: a later one at the same path is on top. Invalid lines are skipped."""
    return tuple(mount for line in text.splitlines() if (mount := _line(line)) is not None)


def below(mounts: Iterable[MountPoint], folder: str) -> list[str]:
    """Paths at and below a folder, the deepest and latest first: the order in which they can be unmounted."""
    inside = f"{folder.rstrip('/')}/"
    return [mount.path for mount in mounts if f"{mount.path.rstrip('/')}/".startswith(inside)][::-1]


def of_path(mounts: Iterable[MountPoint], path: str) -> MountPoint | None:
    """The mount that a path is on; None without one."""
    best = None
    for mount in mounts:
        inside = mount.path == path or path.startswith(f"{mount.path.rstrip('/')}/")
        if inside and (best is None or len(mount.path) >= len(best.path)):
            best = mount
    return best


def _line(line: str) -> MountPoint | None:
    fields = line.split(" ")
    if _SEPARATOR not in fields[_FIXED:]:
        return None
    end = fields.index(_SEPARATOR, _FIXED)
    rest = fields[end + 1 :]
    if len(rest) < 2:  # type and source
        return None
    tags = {tag.partition(":")[0] for tag in fields[_FIXED:end]}
    kinds = (("shared", "shared"), ("master", "slave"), ("unbindable", "unbindable"))
    return MountPoint(
        root=_unescape(fields[3]),
        path=_unescape(fields[4]),
        options=fields[5],
        kind=rest[0],
        source=_unescape(rest[1]),
        propagation=next((name for tag, name in kinds if tag in tags), "private"),
    )


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
