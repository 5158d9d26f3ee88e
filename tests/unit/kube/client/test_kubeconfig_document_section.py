"""Reading groups of keys."""

import base64

import pytest

from interpose.config.documents.yaml import parse_document
from interpose.errors import ConfigError
from interpose.kube.client.kubeconfig_document import Section, plain
from interpose.net.http.tls import Pem


def section(text: str, **more: str) -> Section:
    """The document as a section."""
    return Section(parse_document(text, "file f"), where="file f", folder="/etc/kube", **more)


def said(problem: pytest.ExceptionInfo[ConfigError]) -> str:
    """The text of the error."""
    return str(problem.value)


def test_values() -> None:
    """Each key is read as what it is asked for; what is not there or null is empty."""
    found = section('a: text\nb: true\nc: null\nd: [x, y]\ne: {f: "1"}\ng: [{h: i}]\nj: "off"\nk: no')
    assert (found.text("a"), found.text("c"), found.text("z")) == ("text", "", "")
    assert (found.flag("b"), found.flag("c"), found.flag("k")) == (True, False, False)
    assert (found.texts("d"), found.texts("z")) == (("x", "y"), ())
    inner = found.section("e")
    assert inner is not None
    assert inner.text("f") == "1"
    assert found.section("z") is None
    assert [each.text("h") for each in found.sections("g")] == ["i"]
    assert found.sections("z") == []
    assert found.needed("a") == "text"


@pytest.mark.parametrize(
    ("text", "key", "read", "message"),
    [
        ("x: 1\na: 12", "a", "text", "file f line 2: a: expected text, found a number; quotes make it text"),
        ("a: {}", "a", "text", "file f line 1: a: expected text, found a group of keys; quotes make it text"),
        ("a: yes please", "a", "flag", "file f line 1: a: expected true or false, found text"),
        ("a: x", "a", "texts", "file f line 1: a: expected a list, found text"),
        ("a: [1]", "a", "texts", "file f line 1: a: expected a list of texts; quotes make it text"),
        ("a: x", "a", "section", "file f line 1: a: expected a group of keys, found text"),
        ("a: [x]", "a", "sections", "file f line 1: a[0]: expected a group of keys, found text"),
        ("a: {}", "a", "sections", "file f line 1: a: expected a list, found a group of keys"),
        ("b: x", "a", "needed", "file f line 1: a: is missing"),
        ("b: x\na: x\na: y", "a", "text", "file f line 2: a: appears more than once"),
    ],
)
def test_values_of_another_kind(text: str, key: str, read: str, message: str) -> None:
    """File, line, key, and what was expected; never the value."""
    with pytest.raises(ConfigError) as caught:
        getattr(section(text), read)(key)
    assert said(caught) == message


def test_document_that_is_no_group() -> None:
    """A list is no kubeconfig."""
    with pytest.raises(ConfigError, match="file f line 1: expected a group of keys, found a list"):
        section("[]")


def test_parts_are_named() -> None:
    """By where they are, or by what they are called."""
    inner = section("a: {b: {c: 1}}").section("a")
    assert inner is not None
    deeper = inner.section("b")
    assert deeper is not None
    with pytest.raises(ConfigError, match="file f line 1: a: b: c: expected text"):
        deeper.text("c")
    with pytest.raises(ConfigError, match="file f line 1: user 'x': c: expected text"):
        deeper.called("user 'x'").text("c")


def test_paths() -> None:
    """Relative to the folder of the file; programs without a slash are left for PATH."""
    found = section("a: ../x\nb: /y\nc: prog\nd: ./prog")
    assert (found.path("a"), found.path("b"), found.path("z")) == ("/etc/x", "/y", "")
    assert (found.command("c"), found.command("d")) == ("prog", "/etc/kube/prog")


def test_pem() -> None:
    """A file, or data that counts more and may be folded."""
    data = base64.b64encode(b"--MARK--\nx").decode()
    assert section("a: x").pem("a", "MARK") == Pem(file="/etc/kube/x")
    assert section(f"a: x\na-data: {data[:4]} {data[4:]}").pem("a", "MARK") == Pem(text="--MARK--\nx")
    assert section("b: x").pem("a", "MARK") == Pem()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("hidden!", "a-data: is not base64 of a PEM text"),
        ("/w==", "a-data: is not base64 of a PEM text"),
        ("aGlkZGVu", "a-data: is base64 of something without 'MARK'"),
    ],
)
def test_pem_that_is_none(data: str, message: str) -> None:
    """It is not shown."""
    with pytest.raises(ConfigError) as caught:
        section(f"a-data: {data}").pem("a", "MARK")
    assert said(caught) == f"file f line 1: {message}"


def test_plain() -> None:
    """A document as JSON."""
    text = "{a: [1, 2.5, true, null, x, 0x1f], b: {c: no}}"
    assert plain(parse_document(text, "x")) == {"a": [1, 2.5, True, None, "x", "0x1f"], "b": {"c": False}}
