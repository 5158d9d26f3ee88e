"""What a relay hands over to its successor besides the state file: the newest state, and creates in flight.

Reading never fails: what cannot be read counts as nothing, and the successor asks the runtime.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from interpose.core.model.cgroup import KubeQos
from interpose.core.policy.request import Request
from interpose.resmgr.state.codec import Fields, items, key_from_plain, key_to_plain, text
from interpose.resmgr.state.state import State, decode, encode
from interpose.resmgr.tracker import AllocationTracker


class PolicyHandover(NamedTuple):
    """The state of a previous relay, and the containers in it that the runtime has not confirmed."""

    state: State
    pending: tuple[Request, ...] = ()


def encode_handover(state: State, tracker: AllocationTracker) -> Mapping[str, object]:
    """The handover as plain values of JSON."""
    return {
        "state": encode(state).decode(),
        "pending": [_plain(held.request) for held in tracker.allocations.by_key.values() if not held.id],
    }


def decode_handover(memory: object) -> PolicyHandover | None:
    """The handover of a previous relay; None if it cannot be read."""
    try:
        fields = Fields(memory, "estate")
        return PolicyHandover(decode(fields.get("state", text).encode()), fields.get("pending", items(_request)))
    except (ValueError, UnicodeError):
        return None


def _plain(request: Request) -> dict[str, Any]:
    return {
        **key_to_plain(request.key),
        "namespace": request.namespace,
        "pod": request.pod,
        "qos": request.qos.value,
    }


def _request(plain: object, where: str) -> Request:
    fields = Fields(plain, where)
    return Request(
        key=key_from_plain(fields),
        namespace=fields.get("namespace", text),
        pod=fields.get("pod", text),
        qos=KubeQos(fields.get("qos", text)),
    )
