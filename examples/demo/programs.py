"""Programs of the demo: those that stay, from the moment they listen, and commands that are run as they are printed."""

import asyncio
import os
import subprocess
import tempfile
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Final, TypeVar

from examples.demo.places import Places
from tests.support.lab.processes import Child, LabError, accepts
from tests.support.lab.relay import program

T = TypeVar("T")

START: Final = 120.0  # seconds for a program to come up, and for values to come: no machine is that busy
INDENT: Final = 2  # of what commands print
_COMPLAINTS: Final = ("E", "F", "error")
_LAST: Final = 3
_EVERY: Final = 0.02
_ROWS: Final = 1000
_CHUNK: Final = 1 << 16
_GRACE: Final = 60.0  # pods end, one after the other


@asynccontextmanager
async def running(places: Places, ready: Path | Callable[[], bool], *command: str) -> AsyncIterator[Child]:
    """`interpose ...` inside the block, from the moment it listens on `ready`, or that is true."""
    log = places.folder / f"{command[0]}.log"
    child = Child([str(program()), *command], log=log, env=places.environment(), cwd=places.folder)

    async def up_or_over() -> bool:
        return (ready() if callable(ready) else accepts(ready)) or not child.running

    try:
        await until(up_or_over, f"interpose {command[0]}")
        if not child.running:
            raise child.error(f"ended with {child.exit_code}")
        yield child
    finally:
        await asyncio.shield(asyncio.to_thread(child.stop, _GRACE))


async def until(condition: Callable[[], Awaitable[T]], what: str) -> T:
    """Ask until the answer is true, and return it; AssertionError with `what` when somebody has waited long enough."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + START
    while not (value := await condition()):
        if loop.time() > deadline:
            raise AssertionError(f"waited {START:g} s in vain for {what}")
        await asyncio.sleep(_EVERY)
    return value


class Shell:
    """Runs command lines in the demo's folder, with its settings, and shows them as a terminal does."""

    def __init__(self, places: Places, width: int) -> None:
        self._places = places
        self._width = width

    async def run(self, line: str) -> str:
        """Do it, and print it with what it says on standard output, which is also the result. LabError if it fails."""
        code, said, errors = await asyncio.to_thread(self._run, line)
        if code != 0:
            raise LabError(f"{line}: ended with {code}\n{said}{errors}")
        self.show(line)
        print_indented(said)
        return said

    @staticmethod
    def show(line: str) -> None:
        """A command line."""
        print(f"  $ {line}", flush=True)

    def _run(self, line: str) -> tuple[int, str, str]:
        """Exit code, and what it wrote to a terminal of our width and to standard error."""
        master, slave = os.openpty()
        termios.tcsetwinsize(slave, (_ROWS, self._width - INDENT))
        env = {**os.environ, **self._places.environment(), "NO_COLOR": "1"}
        env.pop("COLUMNS", None)
        with tempfile.TemporaryFile() as errors, os.fdopen(master, "rb", buffering=0) as terminal:
            process = subprocess.Popen(
                line,
                shell=True,  # it is printed to be typed into one
                stdin=subprocess.DEVNULL,
                stdout=slave,
                stderr=errors,
                cwd=self._places.folder,
                env=env,
                start_new_session=True,
            )
            os.close(slave)
            said = b"".join(_until_closed(terminal))
            code = process.wait(START)
            errors.seek(0)
            return code, said.decode().replace("\r\n", "\n"), errors.read().decode()


def _until_closed(terminal: FileIO) -> Iterator[bytes]:
    """The other end is closed when the command has ended, which reading a terminal tells as an error."""
    with suppress(OSError):
        while chunk := terminal.read(_CHUNK):
            yield chunk


def print_indented(text: str) -> None:
    """What a command said."""
    for line in text.rstrip().splitlines():
        print((" " * INDENT + line).rstrip(), flush=True)


def complaints(folder: Path) -> list[str]:
    """The last errors in logs of programs."""
    found = []
    for log in sorted(folder.glob("*.log")):
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith(_COMPLAINTS)]
        found += [f"{log.name}: {line}" for line in lines[-_LAST:]]
    return found
