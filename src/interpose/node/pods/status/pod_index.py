"""The pods there are: those that a runtime has, and those of ours that it has nothing of.

The latter failed before they had a sandbox, or the runtime lost them. They have a folder all the same, maybe logs and a
cgroup, and somebody who wants to look at them or to remove them. Those of another runtime may well run: they are not
among them.
"""

import asyncio
from dataclasses import dataclass

from interpose.node.pods.status.last_status import read_last_status
from interpose.node.pods.status.origin import Origin, pods_of, read_origin
from interpose.node.pods.status.reader import PodReader
from interpose.node.pods.status.runtime_pod import RuntimePod
from interpose.node.pods.status.summary import PodSummary
from interpose.node.pods.status.types import PodStatus
from interpose.node.pods.volumes.pod_folders import PodFolders


@dataclass(frozen=True, slots=True, kw_only=True)
class PodIndex:
    """All pods, those that the runtime has first; `ours` are the uids of those that have a folder."""

    pods: tuple[RuntimePod, ...]
    ours: frozenset[str]


async def known_pods(reader: PodReader) -> PodIndex:
    """All pods, of everybody. RpcError if the runtime cannot be asked."""
    listed = await reader.get_pods(all=True)
    # Folders after the list: a pod of ours that is in it had its folder before.
    ours = await asyncio.to_thread(reader.dirs.uids)
    unlisted = sorted(set(ours) - {pod.uid for pod in listed})
    found = await asyncio.to_thread(pods_of, reader.dirs, unlisted, reader.where)
    return PodIndex(pods=(*listed, *found), ours=frozenset(ours))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """All that is known of a pod; `origin` is None if it is not ours, or was not noted."""

    pod: RuntimePod
    summary: PodSummary
    origin: Origin | None

    @property
    def began(self) -> int:
        """When it was made or first wanted, in nanoseconds of the day; 0 if nobody knows."""
        created = [sandbox.created_at for sandbox in self.summary.status.sandboxes]
        return min(created, default=self.origin.began if self.origin is not None else 0)


async def known_pod(reader: PodReader, pod: RuntimePod, *, ours: bool) -> PodRecord:
    """Everything about one of them. RpcError if the runtime cannot be asked."""
    status = await reader.get_pod_status(pod)
    if not ours:
        return PodRecord(pod=pod, summary=PodSummary(status=status), origin=None)
    return await asyncio.to_thread(_noted, reader.dirs, pod, status)


def _noted(dirs: PodFolders, pod: RuntimePod, status: PodStatus) -> PodRecord:
    folder = dirs.folder(pod.uid)
    origin = read_origin(folder)
    summary = PodSummary(
        status=status,
        noted=read_last_status(folder),
        declared=origin.containers if origin is not None else None,
        stopped=dirs.is_stopped(pod.uid),
    )
    return PodRecord(pod=pod, summary=summary, origin=origin)
