"""CRI messages, parsed lazily."""

import subprocess
import sys

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cri.errors import UnreadableMessageError
from interpose.cri.parser import CriParser


def test_unknown_fields_and_bytes_survive() -> None:
    """A field of a later version, and an env that is not UTF-8."""
    data = cri.KeyValue(key="A", value=b"\xff").SerializeToString() + b"\xba\x3e\x05later"
    parser = CriParser("KeyValue")
    message = parser.parse(data)
    assert (message.value, parser.serialize(message)) == (b"\xff", data)


def test_same_content_gives_same_bytes() -> None:
    """Maps too, whatever the order in which they were filled."""
    parser = CriParser("PodSandboxConfig")
    one = cri.PodSandboxConfig(labels={"a": "1", "b": "2"})
    other = cri.PodSandboxConfig(labels={"b": "2", "a": "1"})
    assert parser.serialize(one) == parser.serialize(other)


def test_garbage_is_unreadable() -> None:
    """The message says of what kind it should have been."""
    with pytest.raises(UnreadableMessageError, match="not a VersionRequest"):
        CriParser("VersionRequest").parse(b"\xff\xff")


def test_classes_are_not_imported_before_they_are_needed() -> None:
    """Making a parser is free."""
    code = "import sys; from interpose.cri.parser import CriParser; CriParser('X'); "
    code += "sys.exit('google.protobuf' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
