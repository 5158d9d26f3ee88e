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
    """One mount. `propagation` is shared, slave, private or unbindable."""

    place: str
    kind: str
    source: str
    root: str = "/"
    propagation: str = "private"
    options: str = ""


def parse(text: str) -> tuple[MountPoint, ...]:
    """All mounts in the order of the table: a later one at the same place lies on top. Odd lines are passed over."""
    return tuple(mount for line in text.splitlines() if (mount := _line(line)) is not None)


def below(mounts: Iterable[MountPoint], folder: str) -> list[str]:
    """Places at and below a folder, the deepest and latest first: the order in which they can be taken away."""
    inside = f"{folder.rstrip('/')}/"
    return [one.place for one in mounts if f"{one.place.rstrip('/')}/".startswith(inside)][::-1]


def of_path(mounts: Iterable[MountPoint], path: str) -> MountPoint | None:
    """The mount a path is on."""
    best = None
    for one in mounts:
        inside = one.place == path or path.startswith(f"{one.place.rstrip('/')}/")
        if inside and (best is None or len(one.place) >= len(best.place)):
            best = one
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
        root=_plain(fields[3]),
        place=_plain(fields[4]),
        options=fields[5],
        kind=rest[0],
        source=_plain(rest[1]),
        propagation=next((name for tag, name in kinds if tag in tags), "private"),
    )


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
