"""Shims that nobody can reach: their folder was removed under them. Found by their command line, and ended.

A shim lives as long as its pod, with or without its folder. Without its socket it would hold the pod's namespaces and
cgroup until the machine is restarted. Blocking; for threads.
"""

from pathlib import Path
from typing import Final

from interpose.node.runtime.state import orphans as strays
from interpose.node.runtime.state.ids import is_id

# How shims are started; a shell that looks into a folder of theirs is not one.
_INTERPRETER: Final = frozenset({b"-I", b"-S", b"-c"})


def living(sandboxes: Path, *, proc: Path = strays.PROC) -> list[str]:
    """The ids of sandboxes below this folder that have a shim, be the folder there or not."""
    above = str(sandboxes.absolute())
    found: set[str] = set()
    for _, words in strays.command_lines(proc):
        if _INTERPRETER.issubset(words):
            places = (word.decode(errors="replace").rpartition("/") for word in words)
            found.update(name for folder, _, name in places if folder == above and is_id(name))
    return sorted(found)


def end(folder: Path) -> bool:
    """Kill whoever is the shim of this folder, and with it its holder; True if there was one."""
    words = (*(one.decode() for one in _INTERPRETER), str(folder.absolute()))
    return strays.end(lambda: strays.with_words(words)) > 0
