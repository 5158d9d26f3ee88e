"""Pods of another manager on the same runtime, and the warning about them: a kubelet removes pods it does not know."""

import asyncio
from typing import Final, Protocol

from interpose.cli.render.text import amount
from interpose.net.grpc.status import RpcError
from interpose.node.pods.status.runtime_pod import RuntimePod

_SHOWN: Final = 3


class PodUids(Protocol):
    """Lists the uids of the pods with a directory of ours."""

    def uids(self) -> list[str]: ...


class PodLister(Protocol):
    """The part of the runtime manager used here."""

    @property
    def dirs(self) -> PodUids: ...

    async def get_pods(self) -> list[RuntimePod]: ...


async def list_foreign_pods(manager: PodLister) -> list[str]:
    """Titles of the pods without a directory of ours; empty if the runtime does not answer."""
    ours = frozenset(await asyncio.to_thread(manager.dirs.uids))
    try:
        return sorted(pod.title for pod in await manager.get_pods() if pod.uid not in ours)
    except RpcError:
        return []


def foreign_pods_warning(others: list[str]) -> str:
    """The text to show before our own pods are started beside them."""
    names = ", ".join(others[:_SHOWN]) + (", ..." if len(others) > _SHOWN else "")
    return (
        f"warning: this runtime has {amount(len(others), 'pod')} of somebody else ({names}). "
        "If a kubelet keeps them, it ends all others within seconds: give yours a runtime of their own."
    )
