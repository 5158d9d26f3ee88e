"""What a runtime has of pods, for whoever only looks: nothing of what acts on them is loaded for it."""

from typing import Final

from interpose.cri.client import RuntimeClient
from interpose.node.pods.status.lister import RuntimePodLister
from interpose.node.pods.status.resize_record import ResizeRecord
from interpose.node.pods.status.runtime_pod import RuntimePod
from interpose.node.pods.status.types import PodStatus
from interpose.node.pods.volumes.pod_folders import PodFolders


class PodReader:
    """Pods of a runtime, and the folders of ours. `where` names the runtime: pods of several may have folders below one
    root."""

    def __init__(self, services: RuntimeClient, *, dirs: PodFolders, where: str = "") -> None:
        self.services: Final = services
        self.where = where
        self.dirs = dirs
        self._resized: Final = ResizeRecord(dirs.folder)
        self._listing: Final = RuntimePodLister(services, services, self._resized.of)

    async def get_pods(self, all: bool = False) -> list[RuntimePod]:  # noqa: A002 - the word people look for
        """What the runtime has: pods of which something runs, or all. RpcError if it cannot be asked."""
        return await self._listing.pods(everything=all)

    async def get_pod_status(self, pod: RuntimePod | str) -> PodStatus:
        """Everything about one pod, by its uid or from a list. RpcError if the runtime cannot be asked."""
        return await self._listing.status(pod)

    async def find_pod(self, uid: str) -> RuntimePod:
        """All that the runtime has of one pod; nothing in it if that is nothing."""
        return await self._listing.pod(uid)
