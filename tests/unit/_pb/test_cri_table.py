"""The generated CRI classes against the table of the wire format, in both directions, and how they treat odd bytes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError

from interpose._pb import cri_pb2

TABLE: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data/wire/cri-v1.json").read_text())
FILE = cri_pb2.DESCRIPTOR

SCALARS = {
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64",
}


def local(full_name: str) -> str:
    """A name as the table spells it: without the package."""
    return full_name.removeprefix(f"{TABLE['package']}.")


def single_type(field: FieldDescriptor) -> str:
    """The type of one value of a field, in the table's spelling; fails on a type the table cannot spell."""
    if field.message_type is not None:
        return local(field.message_type.full_name)
    if field.enum_type is not None:
        return local(field.enum_type.full_name)
    return SCALARS[field.type]


def spelled(field: FieldDescriptor) -> str:
    """The whole type of a field in the table's spelling: `repeated X`, `map<K,V>` or `X`."""
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = message.fields_by_name["key"], message.fields_by_name["value"]
        return f"map<{single_type(key)},{single_type(value)}>"
    return f"repeated {single_type(field)}" if field.is_repeated else single_type(field)


def real_messages(scope: "list[Descriptor]") -> Iterator[Descriptor]:
    """Messages with the nested ones; map entries are an artefact of the compiler, not messages of the interface."""
    for message in scope:
        if not message.GetOptions().map_entry:
            yield message
            yield from real_messages(list(message.nested_types))


MESSAGES = {local(message.full_name): message for message in real_messages(list(FILE.message_types_by_name.values()))}
ENUMS: "dict[str, EnumDescriptor]" = {
    local(enum.full_name): enum
    for enum in [
        *FILE.enum_types_by_name.values(),
        *(nested for message in MESSAGES.values() for nested in message.enum_types),
    ]
}


def test_package_and_syntax() -> None:
    """The messages live in the package the table names, and the file name is our own in the descriptor pool."""
    assert FILE.package == TABLE["package"]
    assert FILE.name == "interpose/_pb/cri.proto"


def test_same_messages_on_both_sides() -> None:
    """No message is missing and none is ours alone."""
    assert sorted(MESSAGES) == sorted(TABLE["messages"])


@pytest.mark.parametrize("name", sorted(TABLE["messages"]))
def test_fields(name: str) -> None:
    """Every field has the number, name and type of the table; there is no further field."""
    expected = [tuple(row) for row in TABLE["messages"][name]]
    assert sorted((f.number, f.name, spelled(f)) for f in MESSAGES[name].fields) == sorted(expected)


def test_no_field_tracks_presence_or_shares_a_oneof() -> None:
    """The table knows no oneof; a synthetic one (the `optional` keyword) would show here as well."""
    assert [name for name, message in MESSAGES.items() if message.oneofs] == []


def test_same_enums_on_both_sides() -> None:
    """Every enum, nested ones included, has exactly the names and numbers of the table."""
    ours = {name: {value.name: value.number for value in enum.values} for name, enum in ENUMS.items()}
    assert ours == TABLE["enums"]


def rpcs(service: ServiceDescriptor) -> list[dict[str, Any]]:
    """The methods of a service in the table's form; client streaming has no form there and must fail."""
    rows = []
    for method in service.methods:
        assert not method.client_streaming, method.full_name
        row = {
            "rpc": method.name,
            "request": local(method.input_type.full_name),
            "response": local(method.output_type.full_name),
        }
        rows.append(row | ({"server_streaming": True} if method.server_streaming else {}))
    return rows


def test_same_rpcs_on_both_sides() -> None:
    """Both services have exactly the methods of the table, with request, response and streaming."""

    def by_name(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(rows, key=lambda row: str(row["rpc"]))

    ours = {name: by_name(rpcs(service)) for name, service in FILE.services_by_name.items()}
    assert ours == {name: by_name(rows) for name, rows in TABLE["services"].items()}


def test_credentials_are_marked() -> None:
    """Exactly the four fields that are secrets carry the mark by which a dumper redacts."""
    marked = {
        f"{name}.{field.name}"
        for name, message in MESSAGES.items()
        for field in message.fields
        if field.GetOptions().debug_redact
    }
    assert marked == {f"AuthConfig.{name}" for name in ("password", "auth", "identity_token", "registry_token")}


def length_delimited(number: int, payload: bytes) -> bytes:
    """One field of wire type 2 with a number below 2048 and a payload below 128 bytes."""
    tag = number << 3 | 2
    head = bytes([tag]) if tag < 128 else bytes([tag & 0x7F | 0x80, tag >> 7])
    return head + bytes([len(payload)]) + payload


def test_unknown_fields_survive_an_edit() -> None:
    """A field of a future CRI is still there after parse, edit and serialize, at the top and deep inside."""
    future_deep, future_top = length_delimited(901, b"deep"), length_delimited(902, b"top")
    resources = cri_pb2.LinuxContainerResources(cpu_shares=512).SerializeToString() + future_deep
    linux = length_delimited(1, resources)
    config = length_delimited(15, linux)
    request = cri_pb2.CreateContainerRequest.FromString(length_delimited(2, config) + future_top)

    request.config.linux.resources.cpuset_cpus = "0-1"
    sent = request.SerializeToString()

    assert future_deep in sent
    assert future_top in sent
    again = cri_pb2.CreateContainerRequest.FromString(sent).config.linux.resources
    assert (again.cpu_shares, again.cpuset_cpus) == (512, "0-1")


def test_environment_values_are_bytes() -> None:
    """A value that is not UTF-8 neither breaks the whole request nor changes; a label, being text, would break it."""
    env = length_delimited(1, b"BLOB") + length_delimited(2, b"\xff\xfe\x00")
    config = length_delimited(6, env)
    parsed = cri_pb2.ContainerConfig.FromString(config)
    assert [(e.key, e.value) for e in parsed.envs] == [("BLOB", b"\xff\xfe\x00")]
    assert parsed.SerializeToString() == config

    label = length_delimited(9, length_delimited(1, b"k") + length_delimited(2, b"\xff"))
    with pytest.raises(DecodeError):
        cri_pb2.ContainerConfig.FromString(label)
