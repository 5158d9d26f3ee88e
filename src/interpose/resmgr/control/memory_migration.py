"""Pages that follow a container to other memory nodes.

When a container loses memory nodes, cgroup v2 moves its pages to those it has then. cgroup v1 leaves them where they
are unless `cpuset.memory_migrate` of the container is set before; that is done here, if the configuration asks for it.
It stays set: it says nothing about where memory is, only what happens at the next change. Where there is no such file
there is nothing to do. Files are touched in a thread.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from interpose.core.model.pod import Container, ContainerState
from interpose.errors import ConfigError
from interpose.host.cgroup.tree import CgroupTree
from interpose.log import RateLimited
from interpose.resmgr.control.cgroup_check import Tree, directory_of

_log = logging.getLogger(__name__)

_PLACE: Final = ("cpuset", "cpuset.memory_migrate")
_ON: Final = "1"


class MemoryMigration:
    """Prepares cgroups for a change of memory nodes. `wanted`: whether the configuration asks for it now."""

    def __init__(self, tree: Tree | None, wanted: Callable[[], bool]) -> None:
        self._tree = tree
        self._wanted = wanted
        self._rate_limited = RateLimited(_log)

    async def prepare(self, container: Container | None) -> None:
        """Let the pages of a container that runs follow its memory nodes. What cannot be done is logged only."""
        if self._tree is None or not self._wanted() or container is None:
            return
        if container.state is not ContainerState.RUNNING:
            return  # it has no pages, and on v1 no cgroup
        try:
            await asyncio.to_thread(enable_migration, self._tree, container)
        except (OSError, ValueError, ConfigError) as error:
            text = "Memory of a container cannot follow its memory nodes"
            self._rate_limited.log(logging.WARNING, text, key=container.id, container=container.id, err=str(error))


def enable_migration(tree: Tree, container: Container) -> None:
    """Set the file of a container if this kernel has it; an error if it has another value then.

    Reads and writes files: not for the loop.
    """
    cgroups = tree()
    if cgroups.version == 2:
        return
    directory = directory_of(cgroups, container)
    try:
        enabled = _is_on(cgroups, directory)
    except FileNotFoundError:
        return
    if not enabled:
        cgroups.put_text(directory, *_PLACE, _ON)
        if not _is_on(cgroups, directory):
            raise ValueError(f"{_PLACE[1]} of {directory} stays off")


def _is_on(cgroups: CgroupTree, directory: str) -> bool:
    return cgroups.text(directory, *_PLACE).strip() == _ON
