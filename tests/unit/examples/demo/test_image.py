"""The image of the demo's pods."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from examples.demo.image import IMAGE, PROGRAMS, write_image
from interpose.node.runtime.images.layers.flatten import flatten
from interpose.node.runtime.images.store import LocalImageStore


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Its file."""
    path = tmp_path / "tools.tar"
    write_image(path)
    return path


async def test_it_can_be_imported_and_its_shell_runs(archive: Path, tmp_path: Path) -> None:
    """For this machine, with a name, and with programs that start."""
    store = LocalImageStore(tmp_path / "images")
    store.load()
    (image,) = await store.import_file(archive)
    flatten(store.layers(image), tmp_path / "root")
    await store.close()

    assert image.repo_tags == (f"docker.io/{IMAGE}",)
    assert {path.name for path in (tmp_path / "root/bin").iterdir()} == set(PROGRAMS)
    shell = [str(tmp_path / "root/bin/sh"), "-c", "echo up"]
    assert await asyncio.to_thread(lambda: subprocess.check_output(shell)) == b"up\n"


def test_libraries_are_done_without_where_nobody_lists_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs are there all the same."""
    (tmp_path / "bin").mkdir()
    for name in PROGRAMS:
        program = tmp_path / "bin" / name
        program.write_text("#!/nowhere\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    write_image(tmp_path / "tools.tar")

    assert b"/nowhere" in (tmp_path / "tools.tar").read_bytes()
