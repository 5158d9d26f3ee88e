"""The pages about configuration and objects of policies say what is so: examples are run, files are read."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from interpose.cli.config.recognise import KINDS
from interpose.config.programs import PROGRAMS
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.relay import program

ROOT = Path(__file__).parents[2]
PAGE = "".join((ROOT / "docs" / name).read_text() for name in ("configuration.md", "policy-objects.md"))
EXAMPLE = re.compile(r"^```\n\$ interpose ((?:config|simulate) [^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^```(?:yaml)?\n(# ([\w.-]+\.(?:yaml|cfg))\n.*?)^```$", re.MULTILINE | re.DOTALL)
# What examples end with that show a mistake or a difference.
CODES = {"wrong.yaml": 78, "diff": 1}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the files of the page, and the samples."""
    for text, name in FILE.findall(PAGE):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o644)
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    return tmp_path


def interpose(place: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run the command there."""
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    command: list[str | Path] = [program(), *words]
    return subprocess.run(
        command, cwd=place, env=environment, capture_output=True, encoding="utf-8", check=False, timeout=WAIT_LIMIT
    )


def fits(printed: list[str], lines: list[str]) -> bool:
    """Whether this is what the page says, where `...` stands for any lines."""
    pattern = "".join("(?:.*\n)*?" if line == "..." else re.escape(line.rstrip()) + "\n" for line in printed)
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in lines)) is not None


@pytest.mark.parametrize(("command", "printed"), EXAMPLE.findall(PAGE))
def test_an_example_prints_what_the_page_says(place: Path, command: str, printed: str) -> None:
    """With the files that the page shows."""
    words = shlex.split(command)
    done = interpose(place, *words)
    assert done.returncode == next((code for word, code in CODES.items() if word in words), 0), done.stderr
    lines = [line for line in done.stdout.splitlines() if not _is_doubt(line)]
    assert fits(printed.splitlines(), lines), done.stdout


def _is_doubt(line: str) -> bool:
    """Owner and mode of the samples depend on who checked them out."""
    return line.startswith("  warning: file samples/") and line.endswith("refuses it")


def test_there_are_examples() -> None:
    """They are found, and one that says something else would be."""
    assert len(EXAMPLE.findall(PAGE)) >= 8
    assert not fits(["a", "c"], ["a", "b", "c"])


def test_files_of_the_page_are_what_they_are_said_to_be(place: Path) -> None:
    """All but the wrong one can be used."""
    names = [name for _, name in FILE.findall(PAGE) if name != "wrong.yaml"]
    assert len(names) >= 4
    done = interpose(place, "config", "validate", *names)
    assert done.returncode == 0, done.stdout


def test_options_of_the_page_are_options() -> None:
    """Each is in the help of some command."""
    known = set(re.findall(r"--[a-z][a-z-]+", (ROOT / "docs/reference/flags.md").read_text())) | {"--type"}
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) - known == set()


def test_every_program_is_named() -> None:
    """By the kind of its files."""
    assert [one.kind for one in PROGRAMS.values() if f"`{one.kind}`" not in PAGE] == []
    assert {one.kind for one in PROGRAMS.values()} <= set(KINDS)
