"""The file with the node's policy is followed, and nothing bad that happens to it takes a policy out of force."""

import json
import logging
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.config.documents.yaml import DocumentNode, read_document
from interpose.hooks.server.node import node_file
from interpose.hooks.server.node.node_document import NodeDocument
from interpose.hooks.server.node.node_file import NodeFile
from interpose.host.file_trust import ExaminedFile, Trust, examine
from interpose.testing.eventually import eventually


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is; its folder exists."""
    folder = tmp_path / "etc"
    folder.mkdir(mode=0o755)
    return folder / "state.json"


def text(name: str = "one", **more: object) -> str:
    """A document about a node of this name."""
    return json.dumps({"apiVersion": "interpose/v1", "kind": "NodeState", "node": {"name": name}, **more})


def put(path: Path, contents: str) -> None:
    """Write the file in place, as editors do."""
    path.write_text(contents)


def replace(path: Path, contents: str) -> None:
    """Put another file in its place, as careful tools do."""
    other = path.with_suffix(".tmp")
    other.write_text(contents)
    other.replace(path)


class Following:
    """A file that is followed, and whom somebody was told about."""

    def __init__(self, path: Path, settle: float = 0.0) -> None:
        self.told: list[str] = []
        self.file = NodeFile(str(path), lambda document: self.told.append(document.name), settle=settle)

    @property
    def name(self) -> str | None:
        """The name in the document in force."""
        return None if self.file.document is None else self.file.document.name

    async def become(self, name: str) -> None:
        """Wait until the document of this node is in force."""
        await eventually(lambda: self.name == name, f"{name} to be in force")


@pytest.fixture
async def following(path: Path) -> AsyncIterator[Following]:
    """Follows a good file."""
    put(path, text())
    started = Following(path)
    started.file.load()
    started.file.start()
    yield started
    await started.file.close()


# -- load


def test_a_good_file_is_in_force_at_once(path: Path) -> None:
    """Whoever waits for it is told, once."""
    path.write_text(text(nodeSLO=None))
    found = Following(path)
    assert found.file.load() is True
    assert found.file.document == NodeDocument(name="one")
    assert found.file.loaded_at is not None
    assert found.file.load() is False
    assert found.told == ["one"]
    assert (found.file.problems, found.file.errors) == ((), 0)


def test_a_missing_file_is_awaited(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is said once, and is no error."""
    found = Following(path)
    for _ in range(3):
        assert found.file.load() is False
    assert found.file.document is None
    assert found.file.loaded_at is None
    assert found.file.problems == (f"file {path}: does not exist",)
    assert found.file.errors == 0
    assert [record.getMessage() for record in caplog.records] == ["Node document does not exist, waiting for it"]
    shutil.rmtree(path.parent)
    assert found.file.load() is False


def test_a_bad_version_leaves_the_last_good_one(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Everything wrong with it is known, and said once until it is something else."""
    path.write_text(text())
    found = Following(path)
    found.file.load()
    path.write_text(text(colour="red", nodeSLO=3))
    with caplog.at_level(logging.WARNING):
        assert [found.file.load() for _ in range(3)] == [False, False, False]
    assert found.name == "one"
    assert found.file.problems == (
        f"file {path} line 1: colour: is not a known key",
        f"file {path} line 1: nodeSLO: expected a group of keys, found a number ('3')",
    )
    assert found.file.errors == 1
    (record,) = caplog.records
    assert record.__dict__["kv"]["last_good_in_force"] is True
    assert "colour" in record.__dict__["kv"]["problems"]
    path.write_text("{")
    found.file.load()
    assert found.file.errors == 2


def test_a_file_that_is_good_again_has_no_problems(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also if it says what it said before; then nobody is told anew."""
    path.write_text(text())
    found = Following(path)
    found.file.load()
    path.write_text("{")
    found.file.load()
    path.write_text(text())
    caplog.clear()
    with caplog.at_level(logging.INFO):
        assert found.file.load() is False
    assert found.file.problems == ()
    assert found.told == ["one"]
    assert [record.getMessage() for record in caplog.records] == ["Node document is valid again"]


def test_a_log_line_does_not_repeat_a_whole_file(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A few problems, and how many more."""
    path.write_text(json.dumps({f"x{number}": 1 for number in range(30)}))
    found = Following(path)
    found.file.load()
    assert len(found.file.problems) == 30
    (record,) = caplog.records
    assert record.__dict__["kv"]["problems"].endswith("; and 25 more")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.yaml", b"a: \x01\n"),
        ("a.yaml", b"a: !" + b"t" * 5000 + b" 1\n"),
        ("a.yaml", b""),
        ("a.json", b"\xff\xfe"),
        ("a.json", b"[" * 100_000),
        ("a.json", b"0" * (5 << 20)),
        ("a.txt", b"{}"),
    ],
)
def test_any_bytes_lead_to_a_problem_that_can_be_shown(path: Path, name: str, data: bytes) -> None:
    """On one line, and short."""
    target = path.parent / name
    target.write_bytes(data)
    found = Following(target)
    assert found.file.load() is False
    (problem,) = found.file.problems
    assert problem.startswith(f"file {target}")
    assert problem.isprintable()
    assert len(problem) <= 403


def test_a_file_that_others_can_write_is_refused(path: Path) -> None:
    """And used again when it is ours alone."""
    path.write_text(text())
    path.chmod(0o666)
    found = Following(path)
    assert found.file.load() is False
    assert found.file.problems == (f"file {path}: has mode 0666, everybody may write to it (chmod o-w)",)
    path.chmod(0o644)
    assert found.file.load() is True


def test_what_is_no_file_is_refused(path: Path) -> None:
    """And never opened."""
    os.mkfifo(path)
    found = Following(path)
    found.file.load()
    assert found.file.problems == (f"file {path}: is a named pipe, not a regular file",)


def test_a_path_that_cannot_be_looked_at_is_a_problem(path: Path) -> None:
    """The system's reason is in it."""
    path.symlink_to(path.name)
    found = Following(path)
    found.file.load()
    assert found.file.problems == (f"file {path}: cannot be opened: Too many levels of symbolic links",)


def test_an_old_file_is_not_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only looked at: the folder is looked at every few seconds."""
    path.write_text(text())
    monkeypatch.setattr(node_file, "_SETTLED_NS", -(10**12))  # as if long ago
    found = Following(path)
    found.file.load()
    monkeypatch.setattr(node_file, "read_document", None)  # whoever reads it, fails
    assert found.file.load() is False


def test_a_file_that_changes_while_it_is_read_is_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise half of each version could count."""
    path.write_text(text("one"))

    def reading(name: str, limit: int) -> DocumentNode:
        found = read_document(name, limit)
        if "one" in path.read_text():
            path.write_text(text("three"))
        return found

    monkeypatch.setattr(node_file, "read_document", reading)
    found = Following(path)
    found.file.load()
    assert found.told == ["three"]


def test_a_file_that_never_stands_still_is_not_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read may be of a version that nobody looked at."""
    path.write_text(text("one"))

    def reading(name: str, limit: int) -> DocumentNode:
        found = read_document(name, limit)
        path.write_text(path.read_text() + " ")
        return found

    monkeypatch.setattr(node_file, "read_document", reading)
    found = Following(path)
    assert found.file.load() is False
    assert found.file.problems == (f"file {path}: changes while it is read",)


# -- follow


async def test_a_file_that_comes_later_is_found(tmp_path: Path) -> None:
    """With its folder."""
    path = tmp_path / "later" / "state.json"
    found = Following(path)
    found.file.load()
    found.file.start()
    try:
        path.parent.mkdir(mode=0o755)
        put(path, text())
        await found.become("one")
        await eventually(lambda: found.file.problems == (), "no problems")
    finally:
        await found.file.close()


async def test_an_edit_in_place_is_noticed(path: Path, following: Following) -> None:
    """Everybody is told each version once."""
    put(path, text("two"))
    await following.become("two")
    put(path, text("three"))
    await following.become("three")
    assert following.told == ["one", "two", "three"]


async def test_an_atomic_replacement_is_noticed(path: Path, following: Following) -> None:
    """And never seen in part."""
    replace(path, text("two"))
    await following.become("two")
    assert following.file.errors == 0


async def test_a_swapped_configmap_is_noticed(tmp_path: Path) -> None:
    """The file is a link through a link, and only that one is replaced."""
    volume = tmp_path / "volume"
    for version, name in (("..1", "one"), ("..2", "two")):
        (volume / version).mkdir(parents=True)
        (volume / version / "state.json").write_text(text(name))
    (volume / "..data").symlink_to("..1")
    (volume / "state.json").symlink_to("..data/state.json")
    found = Following(volume / "state.json")
    found.file.load()
    found.file.start()
    try:
        await found.become("one")
        (volume / "..data_tmp").symlink_to("..2")
        (volume / "..data_tmp").rename(volume / "..data")
        shutil.rmtree(volume / "..1")
        await found.become("two")
    finally:
        await found.file.close()


async def test_a_deleted_file_changes_nothing(path: Path, following: Following) -> None:
    """The policy stays, and the next file counts."""
    os.unlink(path)  # noqa: PTH108
    await eventually(lambda: following.file.problems, "a word about the file")
    assert following.name == "one"
    assert following.file.problems == (f"file {path}: does not exist",)
    replace(path, text("two"))
    await following.become("two")
    assert following.file.errors == 0


async def test_a_bad_version_is_reported_and_survived(path: Path, following: Following) -> None:
    """While following as well."""
    put(path, "{")
    await eventually(lambda: following.file.errors == 1, "the bad version to be reported")
    assert following.name == "one"
    put(path, text("two"))
    await following.become("two")


class Sights:
    """Counts looks at a file, by how it looked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        monkeypatch.setattr(node_file, "examine", self.examine)

    def examine(self, path: str, trust: Trust) -> ExaminedFile:
        """Look at it."""
        found = examine(path, trust)
        self.sizes.append(found.stamp.size)
        return found

    async def see(self, contents: str) -> None:
        """Wait until a version was seen, twice: it was given time."""
        await eventually(lambda: self.sizes.count(len(contents)) > 1, "the version to be seen")


@pytest.mark.parametrize("half", ["apiVersion: interpose/v1\nkind: NodeState\nnode: {name: two}\n", "node: {"])
async def test_a_file_that_is_being_written_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, half: str
) -> None:
    """Neither what its first half means if it means something, nor that it makes no sense."""
    path = tmp_path / "state.yaml"
    put(path, text())
    sights = Sights(monkeypatch)
    found = Following(path, settle=3600.0)
    found.file.load()
    found.file.start()
    try:
        put(path, half)
        await eventually(lambda: len(half) in sights.sizes, "the half to be seen")
        (tmp_path / "other").touch()  # worth a look, and no change
        await sights.see(half)
    finally:
        await found.file.close()
    assert found.told == ["one"]
    assert (found.file.problems, found.file.errors) == ((), 0)


@pytest.mark.parametrize(("contents", "told"), [(text("two"), ["one", "two"]), ("{", ["one"])])
async def test_a_version_that_stands_still_counts(path: Path, contents: str, told: list[str]) -> None:
    """After a moment, also if it cannot be used."""
    put(path, text())
    found = Following(path, settle=0.05)
    found.file.load()
    found.file.start()
    try:
        put(path, contents)
        await eventually(lambda: found.told == ["one", "two"] or found.file.errors == 1, "a word about it")
    finally:
        await found.file.close()
    assert found.told == told


async def test_an_old_file_is_only_looked_at_while_it_is_followed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other files in its folder change all the time."""
    put(path, text())
    monkeypatch.setattr(node_file, "_SETTLED_NS", -(10**12))  # as if long ago
    found = Following(path)
    found.file.load()
    monkeypatch.setattr(node_file, "read_document", None)  # whoever reads it, fails
    sights = Sights(monkeypatch)
    found.file.start()
    try:
        await eventually(lambda: sights.sizes, "the first look")
        (path.parent / "other").touch()
        await sights.see(text())
    finally:
        await found.file.close()
    assert (found.told, found.file.problems) == (["one"], ())


async def test_a_file_that_changes_while_it_is_read_is_looked_at_again(
    path: Path, following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of each version could be in what was read."""

    def reading(name: str, limit: int) -> DocumentNode:
        found = read_document(name, limit)
        if "two" in path.read_text():
            put(path, text("three"))
        return found

    monkeypatch.setattr(node_file, "read_document", reading)
    put(path, text("two"))
    await following.become("three")
    assert following.told == ["one", "three"]


async def test_a_file_that_changes_all_the_time_is_told(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once. What was in force stays."""
    monkeypatch.setattr(node_file, "_UNSETTLED", -1.0)
    put(path, text())
    found = Following(path, settle=3600.0)
    found.file.load()
    found.file.start()
    try:
        put(path, text("two"))
        await eventually(lambda: found.file.problems, "a word about it")
        put(path, text("three"))
    finally:
        await found.file.close()
    assert found.file.problems == (f"file {path}: changes all the time",)
    assert (found.name, found.file.errors, caplog.messages) == ("one", 1, ["Invalid node document"])


async def test_nothing_is_told_after_closing(path: Path, following: Following) -> None:
    """What is in force stays. Closing what was never started is fine."""
    await following.file.close()
    witness = Following(path)
    witness.file.start()
    try:
        put(path, text("two"))
        await witness.become("two")
    finally:
        await witness.file.close()
    assert following.told == ["one"]
    await NodeFile(str(path), lambda document: None).close()


# -- over a restart


@pytest.mark.parametrize("damage", ["{", None])
def test_the_last_good_document_outlives_a_restart(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str | None
) -> None:
    """A file that was broken or deleted meanwhile takes no policy out of force; what is wrong is still told."""
    keep = tmp_path / "state" / "last-good"
    put(path, text())
    NodeFile(str(path), lambda _document: None, copy_path=str(keep)).load()
    if damage is None:
        path.unlink()
    else:
        put(path, damage)
    again = NodeFile(str(path), lambda _document: None, copy_path=str(keep))
    assert again.load() is True
    assert again.document is not None
    assert again.document.name == "one"
    assert again.problems
    assert "Using the node document of the previous run" in caplog.messages
    assert (keep.with_suffix(".json").stat().st_mode & 0o777, keep.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_what_was_kept_is_told_as_any_other_document(path: Path, tmp_path: Path) -> None:
    """Whoever waits for one has it, and has the file's own when it is there."""
    keep, told = tmp_path / "last-good", list[str]()
    put(path, text("kept"))
    NodeFile(str(path), lambda _document: None, copy_path=str(keep)).load()
    path.unlink()
    again = NodeFile(str(path), lambda document: told.append(document.name), copy_path=str(keep))
    assert (again.load(), again.load()) == (True, False)
    put(path, text("two"))
    assert again.load() is True
    assert (told, again.problems) == (["kept", "two"], ())


@pytest.mark.parametrize("kept", [None, "{", "", "[]", "others", "pipe", "directory"])
def test_what_was_kept_and_cannot_be_used_is_nothing(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, kept: str | None
) -> None:
    """As at the first start: the state directory is empty, or holds something damaged or of somebody else."""
    copy = tmp_path / "state" / "last-good.json"
    copy.parent.mkdir()
    if kept == "pipe":
        os.mkfifo(copy)
    elif kept == "directory":
        copy.mkdir()
    elif kept is not None:
        copy.write_text(text() if kept == "others" else kept)
        copy.chmod(0o666 if kept == "others" else 0o600)
    found = NodeFile(str(path), lambda _document: None, copy_path=str(copy.with_suffix("")))
    assert found.load() is False
    assert found.document is None
    assert caplog.messages == ["Node document does not exist, waiting for it"]


def test_without_a_place_nothing_is_kept(path: Path) -> None:
    """A missing file is nothing then."""
    assert NodeFile(str(path), lambda _document: None).load() is False


@pytest.mark.parametrize("when", ["'2024-01-01T00:00:00Z'", "2024-01-01T00:00:00Z"])
def test_a_nodeslo_as_it_is_printed_can_be_used(tmp_path: Path, when: str) -> None:
    """With the time it was made, which some print without quotes."""
    path = tmp_path / "slo.yaml"
    path.write_text(
        "apiVersion: slo.koordinator.sh/v1alpha1\nkind: NodeSLO\n"
        f"metadata:\n  name: one\n  creationTimestamp: {when}\nspec: {{}}\n"
    )
    found = NodeFile(str(path), lambda _document: None)
    assert (found.load(), found.problems) == (True, ())


def test_a_dry_run_keeps_nothing(path: Path, tmp_path: Path) -> None:
    """It leaves no trace."""
    put(path, text())
    NodeFile(str(path), lambda _document: None, copy_path=str(tmp_path / "x"), save_copy=False).load()
    assert not (tmp_path / "x.json").exists()


def test_a_copy_that_cannot_be_made_is_told(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once; the document counts all the same."""
    put(path, text())
    found = NodeFile(str(path), lambda _document: None, copy_path=f"{path}/last-good")
    with caplog.at_level(logging.INFO):
        assert (found.load(), found.load()) == (True, False)
    assert caplog.messages == ["Node document cannot be kept for the next start", "Node document loaded"]


def test_the_same_document_is_kept_once(path: Path, tmp_path: Path) -> None:
    """No wear for nothing."""
    keep = tmp_path / "last-good"
    put(path, text())
    NodeFile(str(path), lambda _document: None, copy_path=str(keep)).load()
    before = keep.with_suffix(".json").stat()
    NodeFile(str(path), lambda _document: None, copy_path=str(keep)).load()
    assert keep.with_suffix(".json").stat().st_ino == before.st_ino
