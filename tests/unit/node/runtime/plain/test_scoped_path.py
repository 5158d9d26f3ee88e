"""Paths inside a root file system."""

from pathlib import Path

import pytest

from interpose.node.runtime.plain.scoped_path import find_program, inside, search_path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root file system with links that would lead out of it."""
    top = tmp_path / "root"
    (top / "bin").mkdir(parents=True)
    (top / "etc").mkdir()
    program = top / "bin" / "busybox"
    program.write_text("")
    program.chmod(0o755)
    (top / "bin" / "sh").symlink_to("busybox")
    (top / "bin" / "far").symlink_to("/bin/busybox")
    (top / "etc" / "up").symlink_to("../../../../etc")
    (top / "loop").symlink_to("loop")
    (top / "bin" / "text").write_text("")
    return top


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/bin/busybox", "/bin/busybox"),
        ("/bin/far", "/bin/busybox"),
        ("/etc/up/passwd", "/etc/passwd"),
        ("/../../x", "/x"),
        ("/new/file", "/new/file"),
        ("/./bin//sh", "/bin/busybox"),
    ],
)
def test_links_stay_inside(root: Path, path: str, expected: str) -> None:
    """As if the root were /."""
    assert inside(str(root), path) == f"{root}{expected}"


def test_a_circle_of_links_ends(root: Path) -> None:
    """With an error."""
    with pytest.raises(OSError, match="too many links"):
        inside(str(root), "/loop")


@pytest.mark.parametrize("name", ["sh", "/bin/sh", "bin/far"])
def test_programs_of_the_image(root: Path, name: str) -> None:
    """By PATH, by path, and relative to the working directory."""
    assert find_program(name, ["PATH=/usr/bin:/bin"], "/", str(root)) == f"{root}/bin/busybox"


def test_programs_of_the_host() -> None:
    """Without a root."""
    assert find_program("sh", ["PATH=/nowhere:/bin"], "/") == "/bin/sh"


@pytest.mark.parametrize(
    ("name", "words"),
    [("/nope", "stat /nope: no such file"), ("nope", "not found in"), ("/bin/text", "permission denied")],
)
def test_what_cannot_be_run_is_said_in_runcs_words(root: Path, name: str, words: str) -> None:
    """Kubelets and people look for these."""
    with pytest.raises(OSError, match=words):
        find_program(name, ["PATH=/bin"], "/", str(root))


def test_a_path_for_who_has_none() -> None:
    """The usual one."""
    assert "/usr/bin" in search_path(["HOME=/"]).split(":")
