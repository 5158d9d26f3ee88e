"""Real child processes for tests about who owns what."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

Child: TypeAlias = "subprocess.Popen[str]"
Spawn: TypeAlias = Callable[..., Child]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Start Python children that talk over their standard streams; they end with the test."""
    children: list[Child] = []

    def start(code: str, *args: str, pass_fds: Sequence[int] = (), wrap: Sequence[str] = ()) -> Child:
        child = subprocess.Popen(
            [*wrap, sys.executable, "-c", code, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            pass_fds=pass_fds,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where the socket goes."""
    return str(tmp_path / "cri.sock")
