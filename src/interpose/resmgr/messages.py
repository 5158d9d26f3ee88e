"""The only user of the generated classes: bytes to values and back, of the config socket and of the agent's service.

Whatever bytes come in, the outcome is a value or a ValueError that can be shown to the sender.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from interpose._pb import resmgr_agent_pb2, resmgr_config_pb2
from interpose.core.model.text import quoted
from interpose.resmgr.config.configuration import AgentConfig

SET_ADJUSTMENT: Final = b"/v1.Config/SetAdjustment"
# More than a person reads, and far below what a client takes in one message.
_MAX_PROBLEMS: Final = 100
_MAX_ADJUSTMENTS: Final = 1000


def read_set_config(data: bytes) -> AgentConfig:
    """Read a SetConfig request; ValueError if it is none."""
    request = _parse(resmgr_config_pb2.SetConfigRequest, data)
    return AgentConfig(node_name=request.node_name, data=dict(request.config))


def set_config_reply(problems: Sequence[str] = ()) -> bytes:
    """The reply of SetConfig: no problems mean that it is in force. Each problem is one line."""
    lines = [" ".join(_sendable(problem).splitlines()) for problem in problems[:_MAX_PROBLEMS]]
    if (more := len(problems) - _MAX_PROBLEMS) > 0:
        lines.append(f"and {more} problems more")
    wire: bytes = resmgr_config_pb2.SetConfigReply(error="\n".join(lines)).SerializeToString()
    return wire


def read_set_adjustment(data: bytes) -> tuple[str, ...]:
    """The names of the adjustments that SetAdjustment was called with; none if the last one was taken back."""
    text = _parse(resmgr_config_pb2.SetAdjustmentRequest, data).adjustment
    if not text.strip():
        return ()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"adjustment: is not valid JSON: {error}") from None
    if found is None:
        return ()
    if not isinstance(found, dict):
        raise ValueError(f"adjustment: expected adjustments by name, found {quoted(text)}")
    return tuple(found)[:_MAX_ADJUSTMENTS]


def set_adjustment_reply(errors: Mapping[str, str]) -> bytes:
    """The reply of SetAdjustment; no errors mean that all are in force."""
    sendable = {_sendable(name): _sendable(text) for name, text in errors.items()}
    wire: bytes = resmgr_config_pb2.SetAdjustmentReply(errors=sendable).SerializeToString()
    return wire


# -- the agent's service


def read_node(data: bytes) -> dict[str, Any]:
    """The Node object that GetNode answered with."""
    text = _parse(resmgr_agent_pb2.GetNodeReply, data).node
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"node: is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"node: expected an object, found {quoted(text)}")
    return found


def patch_node_request(operations: Iterable[tuple[str, str, str]]) -> bytes:
    """The request of PatchNode: operations, paths, and values as JSON text."""
    patches = [resmgr_agent_pb2.JsonPatch(op=op, path=path, value=value) for op, path, value in operations]
    wire: bytes = resmgr_agent_pb2.PatchNodeRequest(patches=patches).SerializeToString()
    return wire


def update_node_capacity_request(capacities: Mapping[str, str]) -> bytes:
    """The request that publishes extended resources and their quantities."""
    wire: bytes = resmgr_agent_pb2.UpdateNodeCapacityRequest(capacities=dict(capacities)).SerializeToString()
    return wire


def _sendable(text: str) -> str:
    """JSON and YAML can spell half a character, which no message can hold."""
    return text.encode("utf-8", "backslashreplace").decode()


def _parse(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except Exception as error:  # DecodeError, whose class is protobuf's
        raise ValueError(f"not a {kind.DESCRIPTOR.name}: {error}") from error
