"""Layers copied into one plain folder, for where overlay cannot be mounted.

The target is ours alone and is written from the lowest layer to the highest. No link is followed on either side.
"""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from interpose.host.rmtree import remove_at
from interpose.node.runtime.images.layers.attributes import Giver, bare, of_file
from interpose.node.runtime.images.layers.copying import copy_data
from interpose.node.runtime.images.layers.tar_reader import StoppedError
from interpose.node.runtime.images.layers.whiteouts import MARKED, OVERLAY, Form

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def flatten(
    layers: Sequence[Path],
    target: Path,
    *,
    privileged: bool | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Make `target` the tree that these layers, lowest first, are together. It must not exist, or be empty."""
    target.mkdir(mode=0o755, parents=True, exist_ok=True)
    giver = Giver(privileged=os.geteuid() == 0 if privileged is None else privileged)
    for layer in layers:
        _Copier(giver, stopped).copy(str(layer), target)


class _Copier:
    """Lays one layer over what is there."""

    def __init__(self, giver: Giver, stopped: Callable[[], bool]) -> None:
        self._giver = giver
        self._stopped = stopped
        self._linked: dict[tuple[int, int], str] = {}  # where files with several names were put

    def copy(self, layer: str, target: Path) -> None:
        descriptor = os.open(target, _FOLDER)
        try:
            bare(descriptor)
            self._folder(layer, descriptor, str(target))
            self._giver.give(descriptor, ".", of_file(layer, os.lstat(layer)), mode=stat.S_IFDIR)
        finally:
            os.close(descriptor)

    def _folder(self, path: str, target: int, place: str) -> None:
        """The content of a folder. Marks first: what they hide is of the layers below, not of this one."""
        if self._stopped():
            raise StoppedError
        with os.scandir(path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        rest = []
        for entry in entries:
            form = _form_of(entry)
            if form is None:
                rest.append(entry)
            elif hidden := form.hidden_name(entry):
                _remove(target, hidden)
        for entry in rest:
            if entry.is_dir(follow_symlinks=False):
                self._enter(entry, target, place)
            else:
                self._file(entry, target, place)

    def _enter(self, entry: "os.DirEntry[str]", target: int, place: str) -> None:
        if OVERLAY.sealed(entry.path) or MARKED.sealed(entry.path) or not _is_folder(target, entry.name):
            _remove(target, entry.name)
            os.mkdir(entry.name, 0o700, dir_fd=target)
        inner = os.open(entry.name, _FOLDER, dir_fd=target)
        try:
            bare(inner)  # of the folder below only the content stays
            self._folder(entry.path, inner, f"{place}/{entry.name}")
        finally:
            os.close(inner)
        self._giver.give(target, entry.name, of_file(entry.path, entry.stat(follow_symlinks=False)), mode=stat.S_IFDIR)

    def _file(self, entry: "os.DirEntry[str]", target: int, place: str) -> None:
        found = entry.stat(follow_symlinks=False)
        _remove(target, entry.name)
        key = (found.st_dev, found.st_ino)
        if found.st_nlink > 1 and key in self._linked:
            os.link(self._linked[key], entry.name, dst_dir_fd=target, follow_symlinks=False)
            return
        try:
            copy_data(entry.path, found, target, entry.name)
        except PermissionError:
            if stat.S_ISREG(found.st_mode):
                raise
            return  # a device that may not be made here
        if stat.S_ISSOCK(found.st_mode):
            return
        self._giver.give(target, entry.name, of_file(entry.path, found), mode=found.st_mode)
        if found.st_nlink > 1:
            self._linked[key] = f"{place}/{entry.name}"


def _form_of(entry: "os.DirEntry[str]") -> Form | None:
    return next((form for form in (OVERLAY, MARKED) if form.is_mark(entry)), None)


def _is_folder(folder: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except (IsADirectoryError, PermissionError) as error:
        if isinstance(error, PermissionError) and error.errno != errno.EPERM:
            raise
        remove_at(folder, name)
