"""Names made from content: when a container counts as another one, and the uid of a pod whose manifest has none. Pure.

Both must stay as they are from release to release: a changed hash restarts every container of every pod.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from interpose.node.pods.spec import Container


_OFFSET: Final = 0x811C9DC5
_PRIME: Final = 0x01000193
_UID_DIGITS: Final = 32  # as the uid of a static pod


def container_hash(container: "Container") -> str:
    """What tells a container from one that needs a restart to become it: its name and image, nothing else."""
    # Neither may hold a zero byte, so that two different pairs are two different texts.
    data = f"{container.name}\0{container.image}".encode()
    return f"{fnv1a(data):x}"


def pod_uid(namespace: str, name: str, content: Mapping[str, Any]) -> str:
    """A uid that stays the same while the manifest says the same, whatever the order of its keys."""
    text = json.dumps([namespace, name, content], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_UID_DIGITS]


def fnv1a(data: bytes) -> int:
    """The 32 bit hash of Fowler, Noll and Vo."""
    value = _OFFSET
    for byte in data:
        value = (value ^ byte) * _PRIME & 0xFFFFFFFF
    return value
