"""The bytes of a pod for hook servers, and of answers that repeat them, without parsing either.

Most answers repeat what was asked, and the message about a new pod is made of parts of its RunPodSandbox. Both can be
told from the fields on the wire, at a fraction of the price of the messages. Pure. Whatever is not as usual gives None
or False, and the messages are parsed instead: an unknown field, a field that comes twice, bytes that are no message.
"""

from collections.abc import Mapping
from typing import Final

# Numbers of fields: of RunPodSandboxRequest and what is in it, and of PodSandboxHookRequest.
_CONFIG, _HANDLER = 1, 2
_CONFIG_META, _CONFIG_LABELS, _CONFIG_ANNOTATIONS, _CONFIG_LINUX = 1, 6, 7, 8
_LINUX_PARENT, _LINUX_OVERHEAD, _LINUX_RESOURCES = 1, 4, 5
_META, _RUNTIME_HANDLER, _LABELS, _ANNOTATIONS, _PARENT, _OVERHEAD, _RESOURCES = 1, 2, 3, 4, 5, 6, 7
# The highest number that the hook protocol knows in a message that is copied whole.
_LAST_OF_META, _LAST_OF_RESOURCES = 4, 10

# Fields of an answer: where the question has the same, and whether it is a map.
_POD_ANSWER: Final[Mapping[int, tuple[int, bool]]] = {1: (3, True), 2: (4, True), 3: (5, False), 4: (7, False)}
_CONTAINER_ANSWER: Final[Mapping[int, tuple[int, bool]]] = {1: (3, True), 2: (4, False), 3: (8, False), 4: (9, True)}

# What a length and a number may have: protobuf does not read more.
_LENGTH_BITS: Final = 32
_NUMBER_BITS: Final = 64

_Parts = dict[int, list[bytes]]


def pod_question(request: bytes) -> bytes | None:
    """The PodSandboxHookRequest about the pod of this RunPodSandboxRequest; None if it has to be parsed."""
    top = _parts(request)
    config = None if top is None else _parts(_only(top, _CONFIG))
    linux = None if config is None else _parts(_only(config, _CONFIG_LINUX))
    if top is None or config is None or linux is None:
        return None
    if _value(top.get(_CONFIG)) is None or _value(config.get(_CONFIG_LINUX)) is None:
        return None
    found: list[bytes] = []
    for number, parts, source, last in (
        (_META, config, _CONFIG_META, _LAST_OF_META),
        (_RUNTIME_HANDLER, top, _HANDLER, 0),
        (_LABELS, config, _CONFIG_LABELS, 0),
        (_ANNOTATIONS, config, _CONFIG_ANNOTATIONS, 0),
        (_PARENT, linux, _LINUX_PARENT, 0),
        (_OVERHEAD, linux, _LINUX_OVERHEAD, _LAST_OF_RESOURCES),
        (_RESOURCES, linux, _LINUX_RESOURCES, _LAST_OF_RESOURCES),
    ):
        values = parts.get(source)
        if values is None:
            continue
        if number not in (_LABELS, _ANNOTATIONS) and len(values) > 1:
            return None
        for value in values:
            if not (_has_only(value, last) if last else _is_text(value)):
                return None
            found.append(_field(number, value))
    return b"".join(found)


def repeats(question: bytes, answer: bytes, *, about_pod: bool) -> bool:
    """Whether an answer has just what was asked in every field that an answer can have. False: look closer."""
    asked, said = _parts(question), _parts(answer)
    if asked is None or said is None:
        return False
    fields = _POD_ANSWER if about_pod else _CONTAINER_ANSWER
    for number in said:
        if number not in fields:
            return False
    for number, (source, is_map) in fields.items():
        before, after = asked.get(source), said.get(number)
        if before == after:
            continue
        if is_map:
            sent, found = _map(before), _map(after)
            if sent is None or found is None or sent != found:
                return False
        elif _value(before) != _value(after):
            return False
    return True


def _value(values: list[bytes] | None) -> bytes | None:
    """The bytes of a field, empty if it is not there; None if it is there more than once."""
    if values is None:
        return b""
    return values[0] if len(values) == 1 else None


def _only(parts: _Parts, number: int) -> bytes:
    values = parts.get(number)
    return b"" if values is None else values[0]


def _parts(data: bytes) -> _Parts | None:
    """The fields of a message that has only texts, maps and messages, by number; None for other bytes."""
    found: _Parts = {}
    position, end = 0, len(data)
    while position < end:
        tag = data[position]
        position += 1
        if tag & 7 != 2 or tag >= 0x80 or position >= end:
            return None
        length = data[position]
        position += 1
        if length >= 0x80:
            length, position = _varint(data, position - 1, _LENGTH_BITS)
        if length < 0 or position + length > end:
            return None
        found.setdefault(tag >> 3, []).append(data[position : position + length])
        position += length
    return found


def _varint(data: bytes, position: int, bits: int) -> tuple[int, int]:
    """The number that begins there, and where it ends; -1 for a number that is cut short or too long."""
    value = shift = 0
    while position < len(data) and shift < bits:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    return -1, position


def _map(entries: list[bytes] | None) -> dict[bytes, bytes] | None:
    """A map by its entries, of which the last one with a key counts."""
    found: dict[bytes, bytes] = {}
    for entry in entries or ():
        parts = _parts(entry)
        if parts is None:
            return None
        for number, values in parts.items():
            if number > 2 or len(values) > 1:
                return None
        found[_only(parts, 1)] = _only(parts, 2)
    return found


def _is_text(data: bytes) -> bool:
    """Whether a text, or what is in an entry of a map, is UTF-8: the message would not be readable else."""
    if data.isascii():
        return True
    try:
        for values in (_parts(data) or {0: [data]}).values():
            for value in values:
                value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _has_only(data: bytes, last: int) -> bool:
    """Whether a message of numbers and ASCII texts has only fields with numbers up to this one."""
    position, end = 0, len(data)
    while position < end:
        tag = data[position]
        position += 1
        if tag >= 0x80 or not 0 < tag >> 3 <= last or tag & 7 not in (0, 2):
            return False
        value, position = _varint(data, position, _NUMBER_BITS)
        if value < 0:
            return False
        if tag & 7 == 2:
            if not data[position : position + value].isascii():
                return False
            position += value
    return position == end


def _field(number: int, value: bytes) -> bytes:
    length = len(value)
    if length < 0x80:
        return bytes((number << 3 | 2, length)) + value
    head = [number << 3 | 2]
    while length >= 0x80:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + value
