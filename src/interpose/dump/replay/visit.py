"""Going through a message without knowing its type. Pure: messages come parsed, and no class of theirs is named."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from interpose.dump.model.call import Flow
from interpose.dump.model.frames import DamagedFrameError, Message, MessageSide

# The name of a CRI message and its bytes in, the message out; ValueError if the bytes are none.
Parse: TypeAlias = Callable[[str, bytes], Any]


def parts(message: Any) -> Iterator[Any]:
    """A message and all messages in it, outer ones first. Maps of the CRI hold texts only."""
    yield message
    for field, value in message.ListFields():
        kind = field.message_type
        if kind is None or kind.GetOptions().map_entry:
            continue
        for item in value if field.is_repeated else (value,):
            yield from parts(item)


def texts(message: Any) -> Iterator[str | bytes]:
    """All texts and bytes in a message, the values of maps included."""
    for part in parts(message):
        for field, value in part.ListFields():
            kind = field.message_type
            if kind is not None:
                if kind.GetOptions().map_entry:
                    yield from (item for item in value.values() if isinstance(item, str))
            elif field.cpp_type == field.CPPTYPE_STRING:
                yield from value if field.is_repeated else (value,)


def type_name(message: Any) -> str:
    """The name of a message type without its package: `PodSandboxConfig`."""
    name: str = message.DESCRIPTOR.name
    return name


def body_of(message: Message) -> bytes:
    """The bytes of a recorded message; ValueError says why there are none."""
    if message.absent:
        raise ValueError(message.absent)
    try:
        return message.data
    except DamagedFrameError as damage:
        raise ValueError(str(damage)) from None


def first_body(flow: Flow, *sides: MessageSide) -> bytes:
    """The first message of the first of these sides that there is; ValueError if there is none or it is not kept."""
    for side in sides:
        found = flow.messages_of(side)
        if found:
            return body_of(found[0])
    raise ValueError(f"the recording has no {sides[-1].name.lower()} of it")
