"""Bytes become values and back; whatever else comes in is a ValueError."""

from collections.abc import Callable

import pytest

from interpose._pb import resmgr_agent_pb2, resmgr_config_pb2
from interpose.kube.agent import messages
from interpose.kube.agent.messages import RequestedPatch


def test_set_config_request() -> None:
    """Node and data arrive as they are."""
    wire = messages.set_config_request("n", {"policy": "ü"})
    request = resmgr_config_pb2.SetConfigRequest.FromString(wire)
    assert (request.node_name, dict(request.config)) == ("n", {"policy": "ü"})


def test_set_config_request_that_no_message_can_hold() -> None:
    """Half a character."""
    with pytest.raises(ValueError, match="cannot be sent"):
        messages.set_config_request("n", {"policy": "\ud800"})


@pytest.mark.parametrize(("error", "problems"), [("", []), ("a\n\nb", ["a", "b"]), (" \n", ["' \\n'"])])
def test_set_config_reply(error: str, problems: list[str]) -> None:
    """One problem a line; whatever is there is no success."""
    wire = resmgr_config_pb2.SetConfigReply(error=error).SerializeToString()
    assert messages.read_set_config_reply(wire) == problems


def test_get_node_reply() -> None:
    """JSON text."""
    assert resmgr_agent_pb2.GetNodeReply.FromString(messages.get_node_reply("{}")).node == "{}"


def test_patch_node() -> None:
    """Operations in their order."""
    request = resmgr_agent_pb2.PatchNodeRequest(
        patches=[resmgr_agent_pb2.JsonPatch(op="add", path="/a", value='"b"'), resmgr_agent_pb2.JsonPatch(op="remove")]
    )
    assert messages.read_patch_node(request.SerializeToString()) == (
        RequestedPatch("add", "/a", '"b"'),
        RequestedPatch("remove", "", ""),
    )
    assert messages.patch_node_reply() == b""


def test_update_node_capacity() -> None:
    """Resources and quantities."""
    request = resmgr_agent_pb2.UpdateNodeCapacityRequest(capacities={"a.b/c": "2"})
    assert messages.read_update_node_capacity(request.SerializeToString()) == {"a.b/c": "2"}
    assert messages.update_node_capacity_reply() == b""


def test_health_check() -> None:
    """Both ends of it understand each other, also about half a character."""
    assert messages.read_health_check(messages.health_check_request("config-status")) == "config-status"
    assert messages.read_health_check_reply(messages.health_check_reply("bad \ud800")) == "bad \\ud800"
    assert messages.read_health_check_reply(messages.health_check_reply()) == ""


@pytest.mark.parametrize(
    "read",
    [
        messages.read_set_config_reply,
        messages.read_patch_node,
        messages.read_update_node_capacity,
        messages.read_health_check,
        messages.read_health_check_reply,
    ],
)
def test_garbage(read: Callable[[bytes], object]) -> None:
    """It is named for what it should have been."""
    with pytest.raises(ValueError, match="not a "):
        read(b"\xff\xff")
