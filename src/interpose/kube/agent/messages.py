"""Messages of the agent's service and of the relay's config service: bytes to values and back.

Any bytes give a value or a ValueError whose text can be sent to the client.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from interpose._pb import resmgr_agent_pb2, resmgr_config_pb2

HEALTH_CHECK: Final = b"/v1.Agent/HealthCheck"


class RequestedPatch(NamedTuple):
    """One operation as it was sent; `value` is JSON text, or should be."""

    op: str
    path: str
    value: str


# -- the relay's service


def set_config_request(node: str, data: Mapping[str, str]) -> bytes:
    """A whole configuration and the node that it is for. ValueError for text that no message can hold."""
    try:
        wire: bytes = resmgr_config_pb2.SetConfigRequest(node_name=node, config=dict(data)).SerializeToString()
    except UnicodeError as error:
        raise ValueError(f"configuration cannot be sent: {error}") from None
    return wire


def read_set_config_reply(data: bytes) -> list[str]:
    """Every reason against a configuration; none: it is in force."""
    error = _parse(resmgr_config_pb2.SetConfigReply, data).error
    return [line for line in error.splitlines() if line.strip()] or ([repr(error)] if error else [])


# -- our own service


def get_node_reply(node: str) -> bytes:
    """The Node object, as JSON text."""
    wire: bytes = resmgr_agent_pb2.GetNodeReply(node=node).SerializeToString()
    return wire


def read_patch_node(data: bytes) -> tuple[RequestedPatch, ...]:
    """What PatchNode was called with, in the order of sending."""
    request = _parse(resmgr_agent_pb2.PatchNodeRequest, data)
    return tuple(RequestedPatch(patch.op, patch.path, patch.value) for patch in request.patches)


def patch_node_reply() -> bytes:
    """The reply to a PatchNode that was carried out."""
    wire: bytes = resmgr_agent_pb2.PatchNodeReply().SerializeToString()
    return wire


def read_update_node_capacity(data: bytes) -> dict[str, str]:
    """What UpdateNodeCapacity was called with: resources and their quantities."""
    return dict(_parse(resmgr_agent_pb2.UpdateNodeCapacityRequest, data).capacities)


def update_node_capacity_reply() -> bytes:
    """The reply to an UpdateNodeCapacity that was carried out."""
    wire: bytes = resmgr_agent_pb2.UpdateNodeCapacityReply().SerializeToString()
    return wire


def read_health_check(data: bytes) -> str:
    """The query of a HealthCheck; empty: the agent as a whole."""
    query: str = _parse(resmgr_agent_pb2.HealthCheckRequest, data).query
    return query


def health_check_reply(error: str = "") -> bytes:
    """The reply to a HealthCheck; an empty error means healthy."""
    sendable = error.encode("utf-8", "backslashreplace").decode()
    wire: bytes = resmgr_agent_pb2.HealthCheckReply(error=sendable).SerializeToString()
    return wire


# -- our own service, from outside: the probe


def health_check_request(query: str) -> bytes:
    """A request for the health of the agent."""
    wire: bytes = resmgr_agent_pb2.HealthCheckRequest(query=query).SerializeToString()
    return wire


def read_health_check_reply(data: bytes) -> str:
    """The error in a HealthCheckReply; empty if healthy."""
    error: str = _parse(resmgr_agent_pb2.HealthCheckReply, data).error
    return error


def _parse(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except Exception as error:  # DecodeError, whose class is protobuf's
        raise ValueError(f"not a {kind.DESCRIPTOR.name}: {error}") from error
