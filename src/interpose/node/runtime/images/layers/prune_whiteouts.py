"""Removes whiteouts that hide nothing from a complete layer.

An opaque folder needs no whiteouts, nor do the folders in it. overlayfs does not look for any there: it would list
their names, and then return ENOENT for them.
"""

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from interpose.host.rmtree import remove_at
from interpose.node.runtime.images.layers.merged_view import Parts
from interpose.node.runtime.images.layers.whiteouts import WhiteoutFormat

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class WhiteoutPruner:
    """Walks a layer once. `bare` are folders that exist for whiteouts only; they are removed with those.

    `step` is called for each folder, and may raise.
    """

    form: WhiteoutFormat
    bare: Collection[Parts]
    step: Callable[[], None]

    def remove(self, folder: int, place: Parts = (), *, opaque: bool) -> None:
        """Prune an open folder and all folders in it; `is_opaque`: the folder is opaque."""
        self.step()
        with os.scandir(folder) as found:
            entries = [
                entry for entry in found if entry.is_dir(follow_symlinks=False) or (opaque and self.form.is_mark(entry))
            ]
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                self._enter(folder, (*place, entry.name), opaque=opaque)
            elif self.form.hidden_name(entry):
                os.unlink(entry.name, dir_fd=folder)

    def _enter(self, folder: int, place: Parts, *, opaque: bool) -> None:
        name = place[-1]
        inner = os.open(name, _FOLDER, dir_fd=folder)
        try:
            inside = opaque or self.form.is_opaque(f"/proc/self/fd/{folder}/{name}")
            self.remove(inner, place, opaque=inside)
            gone = inside and place in self.bare and self._is_empty(inner)
        finally:
            os.close(inner)
        if gone:
            remove_at(folder, name)
            if not opaque:
                self.form.hide(folder, name)  # there was a whiteout for itself, too

    def _is_empty(self, folder: int) -> bool:
        with os.scandir(folder) as found:
            return all(self.form.is_mark(entry) for entry in found)
