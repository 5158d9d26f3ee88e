"""The generated classes of the hook protocol against the table of the wire format, and the one field that is ours."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from interpose._pb import cri_pb2, hook_pb2

TABLE: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data/wire/runtime-hook-v1alpha1.json").read_text())
FILE = hook_pb2.DESCRIPTOR
SCALARS = {
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64",
}
CLEAR = (100, "clear", "repeated string")


def spelled(field: Any) -> str:
    """The type of a field in the table's spelling; a map of anything but strings fails the comparison."""
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return f"map<{spelled(message.fields_by_name['key'])},{spelled(message.fields_by_name['value'])}>"
    one = message.name if message is not None else SCALARS[field.type]
    return f"repeated {one}" if field.is_repeated else one


def test_package_and_messages() -> None:
    """The package and the messages are exactly those of the table."""
    assert FILE.package == TABLE["package"]
    assert sorted(FILE.message_types_by_name) == sorted(TABLE["messages"])


@pytest.mark.parametrize("name", sorted(TABLE["messages"]))
def test_fields(name: str) -> None:
    """Every field has the table's number, name and type; answers have `clear` besides, and nothing else is added."""
    expected = [tuple(row) for row in TABLE["messages"][name]] + ([CLEAR] if name.endswith("HookResponse") else [])
    ours = [(field.number, field.name, spelled(field)) for field in FILE.message_types_by_name[name].fields]
    assert sorted(ours) == sorted(expected)


def test_same_rpcs() -> None:
    """The service has the table's methods, all of them unary."""
    methods = FILE.services_by_name["RuntimeHookService"].methods
    assert [one.name for one in methods if one.client_streaming or one.server_streaming] == []
    ours = {(one.name, one.input_type.name, one.output_type.name) for one in methods}
    assert ours == {(row["rpc"], row["request"], row["response"]) for row in TABLE["services"]["RuntimeHookService"]}


def test_resources_are_bytes_of_the_cri_message() -> None:
    """What the dispatcher relies on: the fields it shares with CRI have the same numbers and types there."""
    theirs = {(f.number, f.name, spelled(f)) for f in cri_pb2.LinuxContainerResources.DESCRIPTOR.fields}
    ours = {(f.number, f.name, spelled(f)) for f in hook_pb2.LinuxContainerResources.DESCRIPTOR.fields}
    assert ours <= theirs
