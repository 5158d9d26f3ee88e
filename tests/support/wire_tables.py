"""Generated classes in the spelling of the tables of wire formats in tests/data/wire, for small services.

A field of a type that the tables cannot spell, an enum and a stream are errors: then the comparison has to learn them.
"""

from typing import Any

from google.protobuf.descriptor import FieldDescriptor

_SCALARS = {FieldDescriptor.TYPE_STRING: "string"}


def spelled_type(field: Any) -> str:
    """The type of a field: `string`, `Message`, `map<K,V>`, `repeated X`."""
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = message.fields_by_name["key"], message.fields_by_name["value"]
        return f"map<{spelled_type(key)},{spelled_type(value)}>"
    name = message.name if message is not None else _SCALARS[field.type]
    return f"repeated {name}" if field.is_repeated else name


def spelled_file(file: Any) -> dict[str, Any]:
    """Everything in a file, as a table has it; lists in the order of the file."""
    return {
        "package": file.package,
        "services": {
            name: [_rpc(method) for method in service.methods] for name, service in file.services_by_name.items()
        },
        "enums": dict(file.enum_types_by_name),
        "messages": {
            name: [[field.number, field.name, spelled_type(field)] for field in message.fields]
            for name, message in file.message_types_by_name.items()
        },
    }


def _rpc(method: Any) -> dict[str, str]:
    if method.client_streaming or method.server_streaming:
        raise ValueError(f"{method.full_name} is a stream")
    return {"rpc": method.name, "request": method.input_type.name, "response": method.output_type.name}
