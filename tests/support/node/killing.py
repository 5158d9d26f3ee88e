"""`interpose` that kills itself at its so-and-so-manieth act, as if the machine had struck there.

    python -m tests.support.node.killing --at N [--acts FILE] [--below DIR]... [--only WORD]... -- runtime ...

An act is something that a process after us can see: a change of a file below the folders given or of a cgroup, a
mount, a program started, a word to a shim or heard from it, a CRI call sent, answered or its answer heard, and moments
of waiting for any of these. Nothing is changed for it in what runs: file changes are seen by an audit hook, the rest
at the few functions that do them. `--at 0` only counts. FILE gets a line for each act; the last one is where it died.
"""

import argparse
import asyncio
import itertools
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

CGROUPS: Final = "/sys/fs/cgroup"
_CHANGES: Final = frozenset(
    f"os.{name}"
    for name in ("mkdir", "rename", "remove", "rmdir", "link", "symlink", "chmod", "chown", "truncate", "setxattr")
)
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_SHOWN: Final = 200
# Seconds after which one who waits for another process may be killed while he waits.
_MOMENTS: Final = (0.005, 0.02, 0.045)


class Acts:
    """Counts acts, and dies at the one that was chosen."""

    def __init__(self, at: int, below: Sequence[str] = (), only: Sequence[str] = (), log: int = -1) -> None:
        """`only`: what acts begin with that count; all if empty. `log`: a descriptor for a line about each."""
        self._at = at
        self._below = (*below, CGROUPS)
        self._only = tuple(only)
        self._log = log
        self._numbers = itertools.count(1)  # atomic, whoever counts

    def act(self, what: str) -> None:
        """One act is to be done now."""
        if self._only and not what.startswith(self._only):
            return
        number = next(self._numbers)
        if self._log >= 0:
            os.write(self._log, f"{number} {what[:_SHOWN]}\n".encode())
        if number == self._at:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """What Python says about itself: changes of files."""
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITES and self._ours(path):
                self.act(f"file write {path}")
        elif event in _CHANGES and self._ours(arguments[0]):
            self.act(f"file {event[3:]} {arguments[0]}")

    def _ours(self, path: object) -> bool:
        """Below our folders, or known by a descriptor only: nothing but the work on our folders does it that way."""
        if isinstance(path, int):
            return True
        text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        return bool(text) and (not text.startswith("/") or text.startswith(self._below))

    # -- what Python does not say

    @contextmanager
    def under_way(self, what: str) -> Iterator[None]:
        """Moments in the middle of something that others do for us, as acts."""
        loop = asyncio.get_running_loop()
        timers = [loop.call_later(one, self.act, f"{what} since {one:g} s") for one in _MOMENTS]
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()

    def around(self, owner: Any, name: str, said: Callable[..., str], *, before: bool = True) -> None:
        """An act before and after each call of a coroutine function."""
        original: Callable[..., Awaitable[Any]] = getattr(owner, name)

        async def counted(*words: Any, **named: Any) -> Any:
            what = said(*words)
            if not before:
                answer = await original(*words, **named)
            else:
                self.act(what)
                with self.under_way(what):
                    answer = await original(*words, **named)
            self.act(f"{what} done")
            return answer

        setattr(owner, name, counted)

    def watch(self) -> None:
        """See everything from now on."""
        from interpose.cri.remote import RemoteCaller
        from interpose.node.runtime.fs import mounts
        from interpose.node.runtime.service.runtime import LocalRuntime
        from interpose.node.runtime.shimclient.client import ShimClient

        sys.addaudithook(self.audit)
        self.around(asyncio, "create_subprocess_exec", lambda *words: f"program {' '.join(map(str, words))}")
        self.around(Process, "communicate", lambda _, *_more: "program works")
        self.around(Process, "wait", lambda _: "program works")
        self.around(ShimClient, "_request", lambda _, op, *_more: f"shim {op}")
        self.around(ShimClient, "_session", lambda _, op, *_more: f"shim {op}")
        self.around(LocalRuntime, "call", lambda _, method, *_more: f"answer {method}", before=False)
        self.around(RemoteCaller, "call", lambda _, method, *_more: f"call {method}")
        mounts._libc = _CountedLibrary(mounts._libc, self)  # type: ignore[assignment]


class _CountedLibrary:
    """The C library, with mounts as acts."""

    def __init__(self, library: Any, acts: Acts) -> None:
        self._library = library
        self._acts = acts

    def mount(self, source: bytes, target: bytes, *more: Any) -> int:
        self._acts.act(f"mount {os.fsdecode(target)}")
        return int(self._library.mount(source, target, *more))

    def umount2(self, target: bytes, flags: int) -> int:
        self._acts.act(f"unmount {os.fsdecode(target)}")
        return int(self._library.umount2(target, flags))


def main(words: Sequence[str] | None = None) -> None:
    """Be `interpose`, until it is over."""
    from interpose.cli.main import cli

    parser = argparse.ArgumentParser(prog="python -m tests.support.node.killing")
    parser.add_argument("--at", type=int, default=0, metavar="N")
    parser.add_argument("--acts", default="", metavar="FILE")
    parser.add_argument("--below", action="append", default=[], metavar="DIR")
    parser.add_argument("--only", action="append", default=[], metavar="WORD")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(words)
    log = os.open(given.acts, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600) if given.acts else -1
    Acts(given.at, given.below, given.only, log).watch()
    cli(given.command, prog_name="interpose")


if __name__ == "__main__":
    main()
