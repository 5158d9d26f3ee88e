"""Messages of config socket and agent: bytes become values or a ValueError, values become bytes whatever is in them."""

import json

import pytest

from interpose._pb.resmgr_agent_pb2 import GetNodeReply, JsonPatch, PatchNodeRequest, UpdateNodeCapacityRequest
from interpose._pb.resmgr_config_pb2 import SetAdjustmentReply, SetAdjustmentRequest, SetConfigReply, SetConfigRequest
from interpose.core.model.kubernetes_names import GET_NODE, PATCH_NODE, SET_CONFIG, UPDATE_NODE_CAPACITY
from interpose.resmgr.config.configuration import AgentConfig
from interpose.resmgr.messages import (
    SET_ADJUSTMENT,
    patch_node_request,
    read_node,
    read_set_adjustment,
    read_set_config,
    set_adjustment_reply,
    set_config_reply,
    update_node_capacity_request,
)


def adjustment(text: str) -> bytes:
    """A request with this text."""
    return SetAdjustmentRequest(node_name="n", adjustment=text).SerializeToString()


def test_paths_are_those_of_the_service() -> None:
    """Package, service and method, as the descriptor has them."""
    service = SetConfigRequest.DESCRIPTOR.file.services_by_name["Config"]
    paths = {f"/{service.full_name}/{method.name}".encode() for method in service.methods}
    assert {SET_CONFIG, SET_ADJUSTMENT} == paths
    agent = GetNodeReply.DESCRIPTOR.file.services_by_name["Agent"]
    assert {GET_NODE, PATCH_NODE, UPDATE_NODE_CAPACITY} < {
        f"/{agent.full_name}/{method.name}".encode() for method in agent.methods
    }


def test_a_configuration_is_read() -> None:
    """It has the name of the node and the data."""
    data = SetConfigRequest(node_name="n", config={"policy.static": "a: b", "x": ""}).SerializeToString()
    assert read_set_config(data) == AgentConfig(node_name="n", data={"policy.static": "a: b", "x": ""})
    assert read_set_config(b"") == AgentConfig(node_name="", data={})


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x05ab", b"\x0a\x02\xff\xfe"])
def test_bytes_that_are_no_message_are_a_value_error(data: bytes) -> None:
    """It says what was expected; text that is not UTF-8 is no message either."""
    with pytest.raises(ValueError, match="not a SetConfigRequest: "):
        read_set_config(data)
    with pytest.raises(ValueError, match="not a SetAdjustmentRequest: "):
        read_set_adjustment(data)


def test_a_reply_has_one_line_for_each_problem() -> None:
    """Also if a problem has several; none means that it is in force."""
    assert set_config_reply() == b""
    assert SetConfigReply.FromString(set_config_reply(["a:\n b", "c"])).error == "a:  b\nc"


def test_a_reply_does_not_grow_without_bound() -> None:
    """It says how many problems are left out."""
    lines = SetConfigReply.FromString(set_config_reply([str(number) for number in range(102)])).error.split("\n")
    assert (len(lines), lines[-2], lines[-1]) == (101, "99", "and 2 problems more")


def test_half_a_character_does_not_break_a_reply() -> None:
    """No message can hold it, so it is spelled."""
    assert SetConfigReply.FromString(set_config_reply(["a \ud800"])).error == "a \\ud800"
    names = read_set_adjustment(adjustment('{"\\ud800": {}}'))
    reply = SetAdjustmentReply.FromString(set_adjustment_reply(dict.fromkeys(names, "no")))
    assert dict(reply.errors) == {"\\ud800": "no"}


@pytest.mark.parametrize("text", ["", " \n", "null", "{}"])
def test_no_adjustments(text: str) -> None:
    """However nothing is spelled."""
    assert read_set_adjustment(adjustment(text)) == ()


def test_adjustments_are_known_by_name() -> None:
    """What they say is not looked at."""
    assert read_set_adjustment(adjustment('{"a": {"spec": 1}, "b": null}')) == ("a", "b")


def test_adjustments_are_bounded() -> None:
    """So that the reply is."""
    assert len(read_set_adjustment(adjustment(json.dumps({str(number): 0 for number in range(1001)})))) == 1000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "adjustment: is not valid JSON: "),
        ("[" * 100_000, "adjustment: is not valid JSON: "),
        ("[1]", r"adjustment: expected adjustments by name, found '\[1\]'"),
    ],
)
def test_adjustments_that_are_none_are_a_value_error(text: str, problem: str) -> None:
    """It says what is wrong."""
    with pytest.raises(ValueError, match=problem):
        read_set_adjustment(adjustment(text))


def test_what_the_agent_is_asked() -> None:
    """Operations in their order, capacities by name."""
    request = PatchNodeRequest.FromString(patch_node_request([("add", "/a", '"x"'), ("remove", "/b", "")]))
    assert list(request.patches) == [JsonPatch(op="add", path="/a", value='"x"'), JsonPatch(op="remove", path="/b")]
    capacities = UpdateNodeCapacityRequest.FromString(update_node_capacity_request({"a.b/c": "4"})).capacities
    assert dict(capacities) == {"a.b/c": "4"}


def test_the_node_that_the_agent_answers() -> None:
    """JSON text in a message."""
    assert read_node(GetNodeReply(node='{"kind": "Node"}').SerializeToString()) == {"kind": "Node"}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\xff", "not a GetNodeReply"),
        (b"", "node: is not valid JSON"),
        (GetNodeReply(node="[" * 100_000).SerializeToString(), "node: is not valid JSON"),
        (GetNodeReply(node="[1]").SerializeToString(), "node: expected an object"),
    ],
)
def test_answers_that_are_no_node(data: bytes, problem: str) -> None:
    """An agent may send anything."""
    with pytest.raises(ValueError, match=problem):
        read_node(data)
