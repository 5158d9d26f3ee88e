"""The pods there are: those that a runtime has, and those of ours that it has nothing of.

The latter failed before they had a sandbox, or the runtime lost them. They have a folder all the same, maybe logs and a
cgroup, and somebody who wants to look at them or to remove them. Those of another runtime may well run: they are not
among them.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from interpose.kuberuntime.manager import RuntimeManager
from interpose.kuberuntime.origins import Origin, read_origin
from interpose.kuberuntime.phase import Phase, seen_phase
from interpose.kuberuntime.poddirs import PodDirs
from interpose.kuberuntime.podstatus import PodStatus
from interpose.kuberuntime.running import RunningPod


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPods:
    """All pods, those that the runtime has first; `ours` are the uids of those that have a folder."""

    pods: tuple[RunningPod, ...]
    ours: frozenset[str]


async def known_pods(manager: RuntimeManager) -> KnownPods:
    """All pods, of everybody. RpcError if the runtime cannot be asked."""
    listed = await manager.get_pods(all=True)
    # Folders after the list: a pod of ours that is in it had its folder before.
    ours = await asyncio.to_thread(manager.dirs.uids)
    unlisted = sorted(set(ours) - {pod.uid for pod in listed})
    found = await asyncio.to_thread(_from_folders, manager.dirs, unlisted, manager.where)
    return KnownPods(pods=(*listed, *found), ours=frozenset(ours))


def known_phase(status: PodStatus, origin: Origin | None) -> Phase:
    """The phase without the manifest: what was once wanted, and has nothing at the runtime, has yet to begin."""
    begun = bool(status.sandboxes or status.containers)
    return Phase.PENDING if origin is not None and not begun else seen_phase(status)


def _from_folders(dirs: PodDirs, uids: Collection[str], runtime: str) -> list[RunningPod]:
    """Pods with nothing in them. One whose name was not noted has its uid for a name, and no namespace."""
    found = []
    for uid in uids:
        origin = read_origin(dirs.folder(uid))
        if origin is not None and origin.runtime not in ("", runtime):
            continue
        if origin is not None and origin.name:
            found.append(RunningPod(uid=uid, name=origin.name, namespace=origin.namespace, complete=True))
        elif Path(dirs.folder(uid)).is_dir():  # somebody may have removed it meanwhile
            found.append(RunningPod(uid=uid, name=uid, complete=True))
    return found
