"""Values of manifests: modes, ports, amounts, and documents as JSON has them."""

from typing import Any

import pytest

from interpose.config.documents.fields import FieldReader, Report
from interpose.config.documents.yaml import DocumentNode, parse_document
from interpose.errors import ConfigError
from interpose.node.pods.manifest.kinds import (
    ABSOLUTE,
    NEEDS_CLUSTER,
    RELATIVE,
    ByteAmount,
    FileMode,
    PortNumber,
    Quantity,
    number,
    plain,
)


def read(kind: FieldReader, text: str) -> Any:
    """The value of a text in YAML, or what is wrong with it."""
    report = Report("x")
    found = kind.read(parse_document(f"k: {text}", "x").entries[0][1], "k", report)
    try:
        report.settle()
    except ConfigError as error:
        assert found is None
        return error.problems[0].removeprefix("x line 1: k: ")
    return found


MODES = "expected a mode from 0 to 0777, found "
PORTS = "expected a number from 1 to 65535 or the name of a port, found "


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (FileMode(), "0644", 0o644),
        (FileMode(), "420", 0o644),
        (FileMode(), "0", 0),
        (FileMode(), "0777", 0o777),
        (FileMode(), "512", MODES + "'512'"),
        (FileMode(), "-1", MODES + "'-1'"),
        (FileMode(), "0x1ff", MODES + "'0x1ff'"),
        (FileMode(), "'0644'", MODES + "text ('0644')"),
        (PortNumber(), "80", 80),
        (PortNumber(), "web", "web"),
        (PortNumber(), "0", PORTS + "'0'"),
        (PortNumber(), "65536", PORTS + "'65536'"),
        (PortNumber(), "Web", PORTS + "'Web'"),
        (PortNumber(), "abcdefghijklmnop", PORTS + "'abcdefghijklmnop'"),
        (PortNumber(), "[]", PORTS + "a list"),
        (ByteAmount(), "1Ki", 1024),
        (ByteAmount(), "0.5", 1),
        (ByteAmount(), "x", "'x' is not a quantity such as 500m, 1.5 or 1Gi"),
        (Quantity(), "true", "expected a quantity, found true or false ('true')"),
        (ABSOLUTE, "/a/b", "/a/b"),
        (ABSOLUTE, "/a/..b", "/a/..b"),
        (ABSOLUTE, "/a/../b", "expected an absolute path without '..', found '/a/../b'"),
        (ABSOLUTE, "a", "expected an absolute path without '..', found 'a'"),
        (RELATIVE, "a/b", "a/b"),
        (RELATIVE, "..", "expected a relative path without '..', found '..'"),
        (RELATIVE, "a/..", "expected a relative path without '..', found 'a/..'"),
        (RELATIVE, "/a", "expected a relative path without '..', found '/a'"),
        (NEEDS_CLUSTER, "{}", None),
        (NEEDS_CLUSTER, "[]", None),
        (NEEDS_CLUSTER, "true", "needs a cluster, and there is none here"),
    ],
)
def test_values(kind: FieldReader, text: str, value: Any) -> None:
    """What they are, or what is wrong with them."""
    assert read(kind, text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("10", 10), ("010", 8), ("0o10", 8), ("-3", -3), ("+3", 3), ("0x10", None), ("", None)],
)
def test_whole_numbers_are_those_of_yaml(text: str, value: int | None) -> None:
    """Octal ones too."""
    assert number(text) == value


def test_a_document_is_as_json_has_it() -> None:
    """All tags; numbers that are written in another way keep their text, as do fractions."""
    node = parse_document("a: [1, 010, 0x1, 1.50, true, 'on', on, ~, x]\nb: {c: -1}\n", "x")
    assert plain(node) == {"a": [1, 8, "0x1", "1.50", True, "on", True, None, "x"], "b": {"c": -1}}
    assert plain(DocumentNode(tag="bool", text="false")) is False
