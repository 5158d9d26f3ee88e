"""Which directories have to be watched to learn of every change to one directory and the files in it.

A path depends on every directory it leads through: any component can be renamed, deleted, created or, as a link,
pointed elsewhere. So each path is followed by hand, link by link, and every directory on the way is noted with the
names in it that matter. Where the way ends early (something is missing) the last directory is the one to watch.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

# As the kernel: more links than this are a loop.
_MAX_LINKS = 40
# Links in the directory that are followed; the files of a ConfigMap or of a handful of packages are far fewer.
_MAX_FOLLOWED = 128


@dataclass(slots=True)
class Interest:
    """What matters in one directory: these names, or all of them (`contents`). With `edits`, writing to files too."""

    names: set[str] = field(default_factory=set)
    contents: bool = False
    edits: bool = False


def watch_plan(directory: str) -> Mapping[str, Interest]:
    """Directories by real path, each after those its path leads through. Only looks, never waits for anything."""
    plan: dict[str, Interest] = {}
    real = _follow(directory, plan)
    if real is None or not _is_directory(real):
        return plan
    inside = plan.setdefault(real, Interest())
    inside.contents = inside.edits = True
    for name in _links_in(real):
        if (file := _follow(f"{real}/{name}", plan)) is not None:
            plan.setdefault(os.path.dirname(file), Interest()).edits = True  # noqa: PTH120 - a real path as well
    return plan


def _follow(path: str, plan: dict[str, Interest]) -> str | None:
    """Note every directory on the way to `path`; the real path at its end, None if it does not lead anywhere."""
    here = "/"
    todo = list(reversed(PurePosixPath(path).parts[1:]))
    links = 0
    while todo:
        name = todo.pop()
        if name == "..":
            here = os.path.dirname(here)  # noqa: PTH120 - a real path, so its text can be cut
            continue
        plan.setdefault(here, Interest()).names.add(name)
        there = os.path.join(here, name)  # noqa: PTH118 - pathlib would cost more than the system calls
        try:
            mode = os.lstat(there).st_mode
            target = os.readlink(there) if stat.S_ISLNK(mode) else None  # noqa: PTH115
        except OSError:
            return None
        if target is None:
            here = there
            if todo and not stat.S_ISDIR(mode):
                return None
            continue
        links += 1
        if links > _MAX_LINKS:
            return None
        parts = PurePosixPath(target).parts
        if target.startswith("/"):
            here, parts = "/", parts[1:]
        todo += reversed(parts)
    return here


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _links_in(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_symlink())[:_MAX_FOLLOWED]
    except OSError:
        return []
