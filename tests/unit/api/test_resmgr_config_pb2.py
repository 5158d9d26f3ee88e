"""The generated classes of the config socket against the table of the wire format."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from interpose.api import resmgr_config_pb2

TABLE: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data/wire/resmgr-config-v1.json").read_text())
FILE = resmgr_config_pb2.DESCRIPTOR
SCALARS = {FieldDescriptor.TYPE_STRING: "string"}


def spelled(field: Any) -> str:
    """The type of a field in the table's spelling; one that the table cannot spell fails."""
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return f"map<{spelled(message.fields_by_name['key'])},{spelled(message.fields_by_name['value'])}>"
    return f"repeated {SCALARS[field.type]}" if field.is_repeated else SCALARS[field.type]


def test_package_and_messages() -> None:
    """The package and the messages are exactly those of the table, and the file name in the pool is our own."""
    assert FILE.package == TABLE["package"]
    assert FILE.name == "interpose/api/resmgr_config.proto"
    assert sorted(FILE.message_types_by_name) == sorted(TABLE["messages"])
    assert sorted(FILE.enum_types_by_name) == sorted(TABLE["enums"])


@pytest.mark.parametrize("name", sorted(TABLE["messages"]))
def test_fields(name: str) -> None:
    """Every field has the table's number, name and type, and none is added."""
    ours = [(field.number, field.name, spelled(field)) for field in FILE.message_types_by_name[name].fields]
    assert sorted(ours) == sorted(tuple(row) for row in TABLE["messages"][name])


def test_same_rpcs() -> None:
    """The service has the table's methods, all of them unary."""
    assert list(FILE.services_by_name) == list(TABLE["services"])
    methods = FILE.services_by_name["Config"].methods
    assert [one.name for one in methods if one.client_streaming or one.server_streaming] == []
    ours = {(one.name, one.input_type.name, one.output_type.name) for one in methods}
    assert ours == {(row["rpc"], row["request"], row["response"]) for row in TABLE["services"]["Config"]}
