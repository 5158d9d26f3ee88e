"""A volume of files, replaced as a whole: who reads sees all of the old files or all of the new ones.

The files are in a folder named after what is in them, `..data` is a link to it, and each visible name a link through
`..data`. One rename changes them all. A process killed at any moment leaves what the next call completes or clears
away.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interpose.core.model.text import quoted
from interpose.host.rmtree import remove_tree

_DATA: Final = "..data"
_HIDDEN: Final = ".."
_FOLDER_MODE: Final = 0o755
_SETGID: Final = 0o2050  # for the group of the volume: entered, read, inherited


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeFile:
    """A file of a volume."""

    content: bytes
    mode: int


def check_file_path(path: str) -> None:
    """ValueError if a path cannot be one of a file in a volume."""
    parts = path.split("/")
    if "\0" in path or "" in parts or "." in parts or ".." in parts or parts[0].startswith(_HIDDEN):
        raise ValueError(f"file {quoted(path)} must be a relative path, and not begin with '..'")


def write_files(volume: str, files: Mapping[str, VolumeFile], group: int | None = None) -> None:
    """Make these the files of the volume. With a group it can read all of them."""
    for path in files:
        check_file_path(path)
    base = Path(volume)
    base.mkdir(parents=True, exist_ok=True)
    _own(base, _FOLDER_MODE, group, folder=True)
    name = _HIDDEN + _digest(files, group)
    if not (base / name).is_dir():
        _write(base, name, files, group)
    if _link_of(base / _DATA) != name:
        _replace_link(base, _DATA, name)
    visible = {path.split("/")[0] for path in files}
    for entry_name in sorted(visible):
        if _link_of(base / entry_name) != f"{_DATA}/{entry_name}":
            _replace_link(base, entry_name, f"{_DATA}/{entry_name}")
    for entry in os.listdir(base):  # noqa: PTH208
        if entry not in (_DATA, name) and entry not in visible:
            remove_tree(f"{base}/{entry}")


def _digest(files: Mapping[str, VolumeFile], group: int | None) -> str:
    total = hashlib.sha256(repr(group).encode())
    for path in sorted(files):
        file = files[path]
        total.update(repr((path, file.mode, len(file.content))).encode() + file.content)
    return total.hexdigest()[:16]


def _write(base: Path, name: str, files: Mapping[str, VolumeFile], group: int | None) -> None:
    # With our number: nobody else writes there, and a leftover of ours is overwritten.
    unfinished = base / f"{_HIDDEN}{os.getpid()}.tmp"
    remove_tree(str(unfinished))
    _make(unfinished, group)
    for path, file in files.items():
        target = unfinished / path
        for folder in reversed(target.relative_to(unfinished).parents):
            _make(unfinished / folder, group)
        with target.open("xb") as stream:
            stream.write(file.content)
            stream.flush()
            os.fsync(stream.fileno())
        _own(target, file.mode, group, folder=False)
    try:
        unfinished.rename(base / name)
    except OSError:
        if not (base / name).is_dir():  # unless somebody else was faster
            raise
        remove_tree(str(unfinished))


def _make(folder: Path, group: int | None) -> None:
    folder.mkdir(exist_ok=True)
    _own(folder, _FOLDER_MODE, group, folder=True)


def _own(path: Path, mode: int, group: int | None, *, folder: bool) -> None:
    if group is not None:
        os.chown(path, -1, group)
        mode |= _SETGID if folder else 0o440
    path.chmod(mode)


def _link_of(path: Path) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115
    except OSError:
        return ""


def _replace_link(base: Path, name: str, to: str) -> None:
    new = base / f"{_HIDDEN}{name.lstrip('.')}.{os.getpid()}.link"
    new.unlink(missing_ok=True)
    new.symlink_to(to)
    if (base / name).is_dir() and not (base / name).is_symlink():
        remove_tree(str(base / name))  # none of ours, in the place of one
    new.replace(base / name)
