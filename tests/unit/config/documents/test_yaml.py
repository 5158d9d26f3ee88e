"""Settings files become nodes with text and line; broken files become clear errors."""

import os
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from interpose.config.documents.yaml import (
    MAX_DEPTH,
    MAX_FILE_BYTES,
    DocumentNode,
    make_document_node,
    read_document,
    read_text,
    split_documents,
)
from interpose.errors import ConfigError


def _read(tmp_path: Path, name: str, text: str) -> DocumentNode:
    path = tmp_path / name
    path.write_text(text)
    return read_document(str(path))


@pytest.mark.parametrize("name", ["a.yaml", "a.yml", "a.json"])
def test_both_formats_give_the_same_shape_with_lines(tmp_path: Path, name: str) -> None:
    """JSON and YAML documents look the same to the checker, lines included."""
    text = '{\n"a": 1,\n"b": {\n"c": "x",\n"d": [true, null, 1.5]\n}\n}'
    root = _read(tmp_path, name, text)
    assert root.tag == "map"
    (_, a), (_, b) = root.entries
    assert (a.tag, a.text, a.line) == ("int", "1", 2)
    (_, c), (_, d) = b.entries
    assert (c.tag, c.text, c.line) == ("str", "x", 4)
    assert [item.tag for item in d.items] == ["bool", "null", "float"]
    assert d.line == 5


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_duplicate_keys_stay_visible(tmp_path: Path, name: str) -> None:
    """The checker must see both entries, each with its own line."""
    root = _read(tmp_path, name, '{\n"a": 1,\n"a": 2\n}')
    assert [(key, node.text, node.line) for key, node in root.entries] == [("a", "1", 2), ("a", "2", 3)]


def test_yaml_scalars_keep_their_text(tmp_path: Path) -> None:
    """A mode written as 0660 arrives as 0660, not as the number YAML makes of it."""
    root = _read(tmp_path, "a.yaml", "mode: 0660\n")
    assert root.entries[0][1].text == "0660"


@pytest.mark.parametrize("text", ["2026-01-01", "2026-01-01T00:00:00Z", "'2026-01-01T00:00:00Z'"])
def test_dates_are_text(tmp_path: Path, text: str) -> None:
    """With quotes or without: tools print the time a thing was made in both ways."""
    (_, node) = _read(tmp_path, "a.yaml", f"a: {text}\n").entries[0]
    assert (node.tag, node.text) == ("str", text.strip("'"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "", "is empty"),
        ("a.json", " \n", "is empty"),
        ("a.yaml", "# nothing\n", "holds only comments"),
        ("a.toml", "a = 1", "must end in .yaml, .yml or .json"),
        ("a.yaml", "a: [1\nb: 2\n", "line 2: is not valid YAML"),
        ("a.json", '{"a":\n}', "line 2: is not valid JSON"),
        ("a.yaml", "a: 1\n---\nb: 2\n", "is not valid YAML"),
        ("a.yaml", "a: &x {b: 1}\nc: *x\n", "line 1: anchors with aliases are not supported"),
        ("a.yaml", "a: &x [*x]\n", "anchors with aliases are not supported"),
        ("a.yaml", "a: !!python/object:os.system x\n", "values of type python/object:os.system are not supported"),
        ("a.yaml", "a: !!binary eA==\n", "values of type binary are not supported, quote it if it is text"),
        ("a.yaml", "[" * 500 + "]" * 500, "nested too deeply"),
        ("a.json", "[" * 500 + "]" * 500, "nested too deeply"),
        ("a.yaml", "a: \x01\n", "is not valid YAML"),
    ],
)
def test_unusable_files_are_named_with_the_reason(tmp_path: Path, name: str, text: str, message: str) -> None:
    """Whatever is wrong with a file, the error names it."""
    with pytest.raises(ConfigError) as caught:
        _read(tmp_path, name, text)
    (problem,) = caught.value.problems
    assert problem.startswith(f"file {tmp_path / name}")
    assert message in problem


def test_missing_directories_and_binary_files_are_named(tmp_path: Path) -> None:
    """A file that cannot be read as text is an error with its name."""
    (tmp_path / "dir.yaml").mkdir()
    (tmp_path / "bin.yaml").write_bytes(b"\xff\xfe\x00")
    for name, message in [
        ("none.yaml", "No such file or directory"),
        ("dir.yaml", "Is a directory"),
        ("bin.yaml", "is not UTF-8 text (byte 0)"),
    ]:
        with pytest.raises(ConfigError, match=name) as caught:
            read_document(str(tmp_path / name))
        assert message in caught.value.problems[0]


def test_huge_files_are_refused_before_they_are_parsed(tmp_path: Path) -> None:
    """A file of another kind, given by mistake, costs one bounded read."""
    path = tmp_path / "huge.yaml"
    path.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(ConfigError, match=r"huge\.yaml: is larger than"):
        read_document(str(path))


@pytest.mark.parametrize("opening", ["[", "- ", "{a: ", "? "])
def test_depth_is_known_before_the_tree_is_made(tmp_path: Path, opening: str) -> None:
    """The C library dies of a tree that is deep enough, and the program with it."""
    path = tmp_path / "deep.yaml"
    path.write_text(opening * 100_000)
    with pytest.raises(ConfigError, match=r"deep\.yaml line 1: is nested too deeply"):
        read_document(str(path))


def test_limit_can_be_another(tmp_path: Path) -> None:
    """Not every document is a settings file."""
    path = tmp_path / "long.yaml"
    path.write_text("a: b\n")
    with pytest.raises(ConfigError, match="is larger than 3 bytes"):
        read_document(str(path), 3)


def _lines(node: DocumentNode) -> list[tuple[str, int | None]]:
    found = []
    for key, child in node.entries:
        found += [(key, child.line), *_lines(child)]
    return found + [one for item in node.items for one in _lines(item)]


def test_lines_of_json_are_exact_whatever_keys_are(tmp_path: Path) -> None:
    """Keys in other scripts, written with escapes, or that stand in a text before."""
    text = '{"é": "\\"b\\": 1",\n"\\u00e4": {"b"\n:\n1},\n"a\\\\": ["b", {"\\/": "x:", "": 0}],\n"b": "b",\n"\\"": 1}'
    assert _lines(_read(tmp_path, "a.json", text)) == [
        ("é", 1), ("ä", 2), ("b", 2), ("a\\", 5), ("/", 5), ("", 5), ("b", 6), ('"', 7),
    ]  # fmt: skip


def test_named_pipes_are_refused(tmp_path: Path) -> None:
    """Whoever reads one stands still until somebody writes; with a writer there too, since that may write nothing."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(ConfigError, match=f"file {path}: cannot be read: it is a named pipe"):
        read_text(str(path), 100)
    writer = os.open(path, os.O_RDWR)
    try:
        with pytest.raises(ConfigError, match="it is a named pipe"):
            read_text(str(path), 100)
    finally:
        os.close(writer)


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
def test_pipes_of_our_own_are_read_to_their_end(folder: str) -> None:
    """As a shell hands them over: `<(command)`, or standard input."""
    reader, writer = os.pipe()

    def write() -> None:
        os.write(writer, b"a: 1\n")
        os.close(writer)

    thread = threading.Timer(0.05, write)
    thread.start()
    try:
        assert read_text(f"{folder}/{reader}", 100) == "a: 1\n"
    finally:
        thread.join()
        os.close(reader)


def test_empty_device() -> None:
    """A common way to say: nothing."""
    assert read_text("/dev/null", 100) == ""


def test_documents_far_down_in_a_file_cost_one_at_a_time() -> None:
    """Each has all lines before it as blank ones, for the numbers of its lines."""
    text = "---\n".join(f"a: {number}\n" + "\n" * 1000 for number in range(500))
    tracemalloc.start()
    try:
        count = sum(1 for _ in split_documents(text, "x"))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (count, most < 10 * len(text)) == (500, True)


def test_a_key_with_a_block_under_it_has_its_own_line(tmp_path: Path) -> None:
    """Not that of the block's first line, which is one further down."""
    text = "a: 1\nlimit:\n  # a comment\n  b:\n    - c: 1\n    - d:\n        e: 2\n"
    assert _lines(_read(tmp_path, "a.yaml", text)) == [("a", 1), ("limit", 2), ("b", 4), ("c", 5), ("d", 6), ("e", 7)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x", DocumentNode(tag="str", text="x")),
        (True, DocumentNode(tag="bool", text="true")),
        (3, DocumentNode(tag="int", text="3")),
        (1.5, DocumentNode(tag="float", text="1.5")),
        (None, DocumentNode(tag="null", text="null")),
        ([1], DocumentNode(tag="list", items=(DocumentNode(tag="int", text="1"),))),
        ({"a": "b"}, DocumentNode(tag="map", entries=(("a", DocumentNode(tag="str", text="b")),))),
    ],
)
def test_values_as_documents_have_them(value: Any, expected: DocumentNode) -> None:
    """Without lines."""
    assert make_document_node(value) == expected


def test_values_nested_too_deeply() -> None:
    """Nobody means that."""
    deep: Any = 1
    for _ in range(MAX_DEPTH + 2):
        deep = [deep]
    with pytest.raises(RecursionError):
        make_document_node(deep)
