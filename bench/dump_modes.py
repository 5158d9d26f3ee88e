"""Relays that differ in what they dump only: how each is started, who reads from it, and what both cost.

The reader of a dump (the scribe, or a command that is attached) goes on after the calls are over. So a measurement ends
when the reader sleeps: its time belongs to these calls, and the next relay finds a quiet machine.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bench.contestants import CACHED_BYTECODE, COMPILED, COMPILED_PROGRAM
from interpose.cli.common.admin_client import AdminConnection, ask
from interpose.config.endpoint import parse_listen
from tests.support.lab.dumps import dump_argv
from tests.support.lab.processes import Child, LabError, cpu_seconds, rss_bytes
from tests.support.lab.relay import relay_argv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")

OFF, SHORT, FULL, RECORD, ATTACHED, BEFORE = "off", "short", "full", "record", "attached", "before"
# Looks in a row at which relay and reader must sleep: both do so for a moment between two pieces.
QUIET_LOOKS = 5
BETWEEN_LOOKS = 0.01


@dataclass(frozen=True, kw_only=True)
class Mode:
    """A way to run a relay. `{0}` in its options stands for the name of a file of its own."""

    name: str
    title: str
    options: tuple[str, ...] = ()
    attach: bool = False  # a `dump record` of its own reads from it
    source: str = ""  # a folder of the project to run instead of this one
    program: str = ""  # the command of another build
    base: str = OFF  # the mode without a dump that it is compared with


MODES = (
    Mode(name=OFF, title="off"),
    Mode(name=SHORT, title="`short` to a file", options=("--dump=reset,short:.*", "--dump-file={0}", "--no-dump-log")),
    Mode(name=FULL, title="`full` to a file", options=("--dump=reset,full:.*", "--dump-file={0}", "--no-dump-log")),
    Mode(name=RECORD, title="`--record`", options=("--record={0}.crirec",)),
    Mode(name=ATTACHED, title="`dump record` attached", attach=True),
)


# Rows of other builds and versions.
_COMPARED = (OFF, SHORT, RECORD, ATTACHED)


def compiled_modes(program: Path) -> tuple[Mode, ...]:
    """The same with the compiled build."""
    return tuple(
        replace(
            mode,
            name=f"{mode.name}-{COMPILED}",
            title=f"{mode.title}, compiled",
            program=str(program),
            base=f"{OFF}-{COMPILED}",
        )
        for mode in MODES
        if mode.name in _COMPARED
    )


def modes(before: Path | None, compiled: Path = COMPILED_PROGRAM) -> tuple[Mode, ...]:
    """All modes: with the compiled build if there is one, and with a folder of an earlier version that one, too."""
    found = MODES + (compiled_modes(compiled) if compiled.exists() else ())
    if before is None:
        return found
    if not (before / "src" / "interpose").is_dir():
        raise LabError(f"--before {before}: there is no src/interpose in it")
    earlier = (
        replace(
            mode,
            name=BEFORE if mode.name == OFF else f"{mode.name}-{BEFORE}",
            title=f"{mode.title}, an earlier version",
            source=str(before),
            base=BEFORE,
        )
        for mode in MODES
        if mode.name in _COMPARED
    )
    return (*found, *earlier)


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What went to readers of a relay since it started."""

    frames: int = 0
    frames_dropped: int = 0
    bodies_dropped: int = 0
    queue_bytes: int = 0
    readers: int = 0


def counts_of(metrics: str) -> Counts:
    """From the text of the relay's metrics, added up over its readers."""
    totals: dict[str, int] = {}
    for line in metrics.splitlines():
        name, _, value = line.rpartition(" ")
        family = name.partition("{")[0].removeprefix("interpose_dump_").removesuffix("_total")
        if name.startswith("interpose_dump_") and family in Counts.__dataclass_fields__:
            totals[family] = totals.get(family, 0) + int(float(value))
    return Counts(**totals)


class Relay:
    """A relay in one of the modes before one backend, and its reader."""

    def __init__(self, mode: Mode, child: Child, listen: Path, reader: Child | None) -> None:
        self.mode = mode
        self.child = child
        self.listen = listen
        self._attached = reader
        self.reader = 0  # the pid; 0 if nobody reads
        self._reader_named()

    def _reader_named(self) -> None:
        if self._attached is not None:
            self._watch(lambda: self.counts().readers == 1, "its reader")
            self.reader = self._attached.pid
        elif self.mode.options:
            self.reader = self._watch(self._scribe, "its scribe")

    def counts(self) -> Counts:
        """What its readers were given until now."""
        connection = AdminConnection(parse_listen(str(_admin(self.listen)), "--admin"))
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            return counts_of(connection.getresponse().read().decode())

    def settle(self) -> None:
        """Wait until its reader has done everything. The relay is not asked: answers would be counted as its work."""
        quiet = 0

        def done() -> bool:
            nonlocal quiet
            quiet = quiet + 1 if _sleeps(self.child.pid) and _sleeps(self.reader) else 0
            return quiet >= QUIET_LOOKS

        if self.reader:
            self._watch(done, "its reader to be done")

    def cpu(self) -> tuple[float, float]:
        """Seconds of the relay and of its reader."""
        return self.child.cpu_seconds(), cpu_seconds(self.reader) if self.reader else 0.0

    def rss(self) -> tuple[int, int]:
        """Bytes of both."""
        return self.child.rss_bytes(), rss_bytes(self.reader) if self.reader else 0

    def _scribe(self) -> int:
        dump: Mapping[str, int] = ask(str(_admin(self.listen)), "GET", "/v1/status").get("dump", {})
        return dump.get("pid", 0)

    def _watch(self, condition: Callable[[], T], what: str) -> T:
        return self.child.wait_until(condition, what=what, every=BETWEEN_LOOKS)


@contextlib.contextmanager
def relay(mode: Mode, folder: Path, listen: Path, backend: Path) -> Iterator[Relay]:
    """A relay that listens, with its reader, inside the block."""
    file = folder / f"{listen.name}.dump"
    options = [option.format(file) for option in mode.options]
    argv = relay_argv(listen, backend, _admin(listen), *options)
    env = CACHED_BYTECODE
    if mode.source:
        env = {**env, "PYTHONPATH": str(Path(mode.source) / "src")}
    front = [mode.program] if mode.program else [sys.executable, argv[0]]  # as the command's own first line would do
    with contextlib.ExitStack() as stack:
        child = stack.enter_context(Child([*front, *argv[1:]], log=folder / f"{listen.name}.log", env=env))
        child.wait_listening(listen)
        child.wait_listening(_admin(listen))
        reader = None
        if mode.attach:
            _, *orders = dump_argv("record", "--admin", _admin(listen), "-w", f"{file}.crirec", "--quiet")
            reader = Child([*front, *orders], log=folder / f"{listen.name}.reader.log", env=env)
            stack.enter_context(reader)
        yield Relay(mode, child, listen, reader)


def _admin(listen: Path) -> Path:
    return listen.with_name(f"{listen.name}.admin")


def _sleeps(pid: int, proc: Path = Path("/proc")) -> bool:
    """Whether a process waits; one that has something to do and no processor to do it on does not."""
    return (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "S"
