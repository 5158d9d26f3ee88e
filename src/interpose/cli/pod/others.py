"""A word of warning where the runtime has pods of somebody else: a kubelet ends whatever is not its own."""

import asyncio
from typing import Final, Protocol

from interpose.cli.render.text import amount
from interpose.net.grpc.status import RpcError
from interpose.node.pods.status.runtime_pod import RuntimePod

_SHOWN: Final = 3


class PodUids(Protocol):
    """Whose pods are ours."""

    def uids(self) -> list[str]: ...


class PodLister(Protocol):
    """The manager, as far as it is needed here."""

    @property
    def dirs(self) -> PodUids: ...

    async def get_pods(self) -> list[RuntimePod]: ...


async def pods_of_others(manager: PodLister) -> list[str]:
    """The pods that somebody else runs there; none if the runtime does not answer."""
    ours = frozenset(await asyncio.to_thread(manager.dirs.uids))
    try:
        return sorted(pod.title for pod in await manager.get_pods() if pod.uid not in ours)
    except RpcError:
        return []


def warning_of(others: list[str]) -> str:
    """What to say before pods are started beside them."""
    names = ", ".join(others[:_SHOWN]) + (", ..." if len(others) > _SHOWN else "")
    return (
        f"warning: this runtime has {amount(len(others), 'pod')} of somebody else ({names}). "
        "If a kubelet keeps them, it ends all others within seconds: give yours a runtime of their own."
    )
