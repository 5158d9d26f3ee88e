"""Whiteouts that hide nothing, taken out of a layer when it is whole.

A folder that hides all that is below it needs no whiteouts, nor do the folders in it. overlayfs does not look for any
there: it would list their names, and then say that there is nothing.
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
    """Goes over a layer once. `bare` are folders that are there for whiteouts only; they go when those are gone.

    `step` is called for each folder, and may raise.
    """

    form: WhiteoutFormat
    bare: Collection[Parts]
    step: Callable[[], None]

    def remove(self, folder: int, place: Parts = (), *, sealed: bool) -> None:
        """In an open folder and all that is in it; `sealed`: it hides all that is below."""
        self.step()
        with os.scandir(folder) as found:
            entries = [one for one in found if one.is_dir(follow_symlinks=False) or (sealed and self.form.is_mark(one))]
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                self._enter(folder, (*place, entry.name), sealed=sealed)
            elif self.form.hidden_name(entry):
                os.unlink(entry.name, dir_fd=folder)

    def _enter(self, folder: int, place: Parts, *, sealed: bool) -> None:
        name = place[-1]
        inner = os.open(name, _FOLDER, dir_fd=folder)
        try:
            inside = sealed or self.form.sealed(f"/proc/self/fd/{folder}/{name}")
            self.remove(inner, place, sealed=inside)
            gone = inside and place in self.bare and self._is_empty(inner)
        finally:
            os.close(inner)
        if gone:
            remove_at(folder, name)
            if not sealed:
                self.form.hide(folder, name)  # there was a whiteout for itself, too

    def _is_empty(self, folder: int) -> bool:
        with os.scandir(folder) as found:
            return all(self.form.is_mark(entry) for entry in found)
