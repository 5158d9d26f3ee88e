"""Whatever changes in the files of a configuration is told once it stands still, and nothing else is."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from interpose.resmgr.config import files as configfiles
from interpose.resmgr.config.files import ConfigFiles, fingerprints
from interpose.testing.eventually import eventually


class Told:
    """Follows files and reads the first of them whenever it is told to."""

    def __init__(self, settle: float = 0.0) -> None:
        self.read: list[str] = []
        self.path: Path | None = None
        self.files = ConfigFiles(self._changed, settle=settle)

    async def _changed(self) -> None:
        assert self.path is not None
        self.read.append(self.path.read_text() if self.path.is_file() else "-")

    def watch(self, *paths: Path) -> None:
        self.path = paths[0]
        self.files.watch(tuple(map(str, paths)))

    async def until(self, text: str) -> None:
        """Wait until this was read last."""
        await eventually(lambda: self.read and self.read[-1] == text, f"{text!r} to be read")


@pytest.fixture
async def told() -> AsyncIterator[Told]:
    made = Told()
    yield made
    await made.files.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file in a folder of its own."""
    folder = tmp_path / "etc"
    folder.mkdir()
    found = folder / "policy.yaml"
    found.write_text("a")
    return found


def put(path: Path, text: str) -> None:
    """Write in place, as editors do."""
    path.write_text(text)


def get(path: Path) -> str:
    """What is in it."""
    return path.read_text()


def remove(path: Path) -> None:
    path.rmdir() if path.is_dir() else path.unlink()


def rename_over(path: Path, text: str) -> None:
    """As careful tools do."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


async def test_it_is_looked_at_from_the_start(told: Told, path: Path) -> None:
    """It may have changed since somebody read it."""
    told.watch(path)
    await told.until("a")


@pytest.mark.parametrize("write", [put, rename_over])
async def test_another_version_is_told(told: Told, path: Path, write: Callable[[Path, str], object]) -> None:
    """However it was written."""
    told.watch(path)
    await told.until("a")
    write(path, "b")
    await told.until("b")


async def test_a_file_may_come_later(told: Told, path: Path) -> None:
    """With its folder, and may go."""
    remove(path)
    remove(path.parent)
    told.watch(path)
    await told.until("-")
    path.parent.mkdir()
    put(path, "a")
    await told.until("a")
    remove(path)
    await told.until("-")


async def test_other_files_do_not_matter(told: Told, path: Path) -> None:
    """Nor does writing the same again."""
    told.watch(path)
    await told.until("a")
    put(path.parent / "other", "x")
    put(path, "a")
    put(path, "b")
    await told.until("b")
    assert told.read == ["a", "b"]


async def test_others_can_be_followed_instead(told: Told, path: Path, tmp_path: Path) -> None:
    """The first is of no interest any more."""
    told.watch(path)
    await told.until("a")
    second = tmp_path / "second"
    put(second, "2")
    told.watch(second)
    await told.until("2")
    put(path, "b")
    put(second, "3")
    await told.until("3")
    assert told.read == ["a", "2", "3"]


async def test_what_is_told_does_not_overlap(path: Path) -> None:
    """Changes while somebody is told are told afterwards."""
    running = most = 0
    read: list[str] = []
    go = asyncio.Event()

    async def changed() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        text = get(path)
        await go.wait()
        read.append(text)
        running -= 1

    files = ConfigFiles(changed, settle=0.0)
    files.watch((str(path),))
    await eventually(lambda: running, "the first call")
    put(path, "b")
    files.watch((str(path),))
    go.set()
    await eventually(lambda: read == ["a", "b"], "both to be told")
    await files.close()
    assert most == 1


async def test_a_version_counts_when_it_stands_still(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Half of a document is not told; one that never stands still is complained about."""
    versions = iter([b"1", b"2", b"3", b"3"])
    monkeypatch.setattr(configfiles, "fingerprints", lambda paths: {str(path): next(versions, b"3")})
    monkeypatch.setattr(configfiles, "_RESTLESS", -1.0)
    seen: list[bytes] = []

    async def changed() -> None:
        seen.append(next(versions, b"end"))

    files = ConfigFiles(changed, settle=0.0)
    files.watch((str(path),))
    await eventually(lambda: seen, "the version to stand still")
    await files.close()
    assert seen == [b"end"]
    assert [record.getMessage() for record in caplog.records] == ["Configuration changes all the time"]


async def test_nothing_is_told_after_closing(told: Told, path: Path) -> None:
    """Also if somebody wants to follow something else."""
    told.watch(path)
    await told.until("a")
    await told.files.close()
    put(path, "b")
    told.watch(path)
    await asyncio.sleep(0)
    assert told.read == ["a"]


# -- fingerprints


def of(path: Path) -> bytes:
    """The fingerprint of one."""
    return fingerprints((str(path),))[str(path)]


def test_permissions_are_part_of_it(path: Path) -> None:
    """A file that everybody can write is refused, and must be looked at again when that is mended."""
    path.chmod(0o644)
    before = of(path)
    path.chmod(0o666)
    assert of(path) != before


def test_what_is_no_file_is_not_opened(path: Path) -> None:
    """A pipe would hang us."""
    before = of(path)
    path.unlink()
    os.mkfifo(path)
    assert of(path) not in (before, of(path.parent / "missing"))


def test_a_link_is_what_it_leads_to(path: Path, tmp_path: Path) -> None:
    """As ConfigMap volumes are made."""
    link = tmp_path / "link"
    link.symlink_to(path)
    before = of(link)
    path.write_text("b")
    assert of(link) != before


@pytest.mark.parametrize("change", ["add", "remove", "write"])
def test_everything_in_a_directory_counts(tmp_path: Path, change: str) -> None:
    """As deep as it goes."""
    lists = tmp_path / "cmk/pools/shared/0"
    (lists / "1-3").mkdir(parents=True)
    exclusive = tmp_path / "cmk/pools/shared/exclusive"
    exclusive.write_text("0")
    before = of(tmp_path / "cmk")
    assert of(tmp_path / "cmk") == before
    if change == "add":
        (lists / "4-5").mkdir()
    elif change == "remove":
        (lists / "1-3").rmdir()
    else:
        exclusive.write_text("1")
    assert of(tmp_path / "cmk") != before


def test_who_runs_where_does_not_count(tmp_path: Path) -> None:
    """It changes with every container."""
    (tmp_path / "tasks").write_text("1")
    before = of(tmp_path)
    (tmp_path / "tasks").write_text("1,2")
    assert of(tmp_path) == before


def test_a_huge_directory_is_not_walked_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not a directory of pools."""
    monkeypatch.setattr(configfiles, "_MAX_ENTRIES", 2)
    for name in "abc":
        (tmp_path / name).mkdir()
    before = of(tmp_path)
    (tmp_path / "d").mkdir()
    assert of(tmp_path) == before
