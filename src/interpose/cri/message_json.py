"""CRI messages as plain JSON values with the field names of the protocol, for the `info` of verbose answers. Pure.

Bytes (environment values) are shown as text, as containerd does.
"""

from typing import Any


def message_to_json(message: Any) -> dict[str, Any]:
    """Numbers stay numbers, enums are numbers, unset fields are left out."""
    return {descriptor.name: _field(descriptor, value) for descriptor, value in message.ListFields()}


def _field(descriptor: Any, value: Any) -> Any:
    entry = descriptor.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return dict(value)
    if descriptor.is_repeated:
        return [_value(item) for item in value]
    return _value(value)


def _value(value: Any) -> Any:
    if hasattr(value, "ListFields"):
        return message_to_json(value)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
