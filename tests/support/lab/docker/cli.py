"""The `docker` command against one socket, and the same commands against two: what they print must not differ.

Ids, times and the names of sockets are replaced in what is compared, for two runs never have the same.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.processes import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_VARYING: Final = (
    (re.compile(rb"\b[0-9a-f]{64}\b"), b"<id>"),
    (re.compile(rb"\b[0-9a-f]{12}\b"), b"<short>"),
    (re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\dZ +:-]*"), b"<time>"),
    (re.compile(rb"\b(About|Less than) a \w+|\b(an?|\d+) (second|minute|hour)s?\b"), b"<age>"),
    (re.compile(rb"\d+\.\d+s\b"), b"<seconds>"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a command left behind."""

    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """What it printed."""
        return self.out.decode()

    def comparable(self) -> Done:
        """The same without what differs from run to run."""
        return Done(code=self.code, out=settled(self.out), err=settled(self.err))


def settled(data: bytes) -> bytes:
    """Ids, times and durations by words for them."""
    for pattern, word in _VARYING:
        data = pattern.sub(word, data)
    return data


def programs() -> list[str]:
    """Every `docker` in the search path: distributions and Docker itself ship different ages of it."""
    found: dict[str, str] = {}
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if path := shutil.which("docker", path=folder):
            found.setdefault(os.path.realpath(path), path)
    return list(found.values())


class DockerCli:
    """`docker -H unix://SOCKET`, with settings of its own: neither plugins nor logins of this machine count."""

    def __init__(self, socket: Path, program: str = "docker") -> None:
        self.socket = socket
        self.program = program

    def argv(self, *args: str) -> list[str]:
        """A whole command line."""
        return [self.program, "-H", f"unix://{self.socket}", *args]

    def env(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Its environment."""
        return {**os.environ, "DOCKER_CONFIG": str(self.socket.parent / "docker-config"), **(more or {})}

    def run(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Done:
        """A command to its end."""
        done = subprocess.run(
            self.argv(*args), input=stdin, capture_output=True, timeout=WAIT_LIMIT, check=False, env=self.env(env)
        )
        return Done(code=done.returncode, out=done.stdout, err=done.stderr)

    def open(self, *args: str) -> Talking:
        """A command that runs on; talk with it inside of a `with` block."""
        return Talking(
            subprocess.Popen(
                self.argv(*args),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self.env(),
                start_new_session=True,
            )
        )

    def on_terminal(self, *args: str, types: Mapping[str, str]) -> Done:
        """A command on a terminal of 80 columns. `types`: what is typed once a text was seen, in this order."""
        ours, its = pty.openpty()
        os.set_blocking(ours, False)
        process = subprocess.Popen(
            self.argv(*args), stdin=its, stdout=its, stderr=its, env=self.env({"TERM": "xterm"}), start_new_session=True
        )
        os.close(its)
        try:
            shown = b""
            for awaited, text in types.items():
                shown += _read_until(ours, awaited.encode(), shown)
                os.write(ours, text.encode())
            shown += _read_until(ours, b"", shown)
            return Done(code=process.wait(WAIT_LIMIT), out=shown, err=b"")
        finally:
            process.kill()
            process.wait()
            os.close(ours)


class Talking:
    """A command that runs: lines come as it prints them."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._seen = b""
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)

    def __enter__(self) -> Talking:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def type(self, data: bytes) -> None:
        """Input, all at once."""
        os.write(self._fd(self.process.stdin), data)

    def close_input(self) -> None:
        """No more of it comes."""
        if self.process.stdin is not None:
            self.process.stdin.close()
            self.process.stdin = None

    def until(self, text: bytes) -> bytes:
        """Everything it printed so far, once this text is in it."""
        self._seen += _read_until(self._fd(self.process.stdout), text, self._seen)
        return self._seen

    def end(self) -> Done:
        """What it printed, when it has ended by itself."""
        self._seen += _read_until(self._fd(self.process.stdout), b"", self._seen)
        return Done(code=self.process.wait(WAIT_LIMIT), out=self._seen, err=b"")

    @staticmethod
    def _fd(pipe: object) -> int:
        return pipe.fileno()  # type: ignore[attr-defined,no-any-return]


def _read_until(fd: int, text: bytes, before: bytes) -> bytes:
    """What comes until the text was seen; an empty text is the end."""
    data = b""
    deadline = time.monotonic() + WAIT_LIMIT
    while not text or text not in before + data:
        if not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise LabError(f"waited in vain for {text!r}; there was {before + data!r}")
        try:
            piece = os.read(fd, 65536)
        except BlockingIOError:
            continue
        except OSError:  # a terminal whose other side is closed
            piece = b""
        if not piece:
            if text:
                raise LabError(f"it ended before {text!r}; there was {before + data!r}")
            break
        data += piece
    return data


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """The same commands straight to dockerd and through something in front of it."""

    direct: DockerCli
    proxied: DockerCli

    def same(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Done:
        """One command; exit code and both outputs are the same. Returns what it did through the proxy."""
        return self.equal(lambda cli: cli.run(*args, stdin=stdin, env=env))

    def equal(self, act: Callable[[DockerCli], Done]) -> Done:
        """Whatever `act` does and cleans up itself."""
        direct = act(self.direct)
        proxied = act(self.proxied)
        expected = _other_socket(direct.comparable(), self.direct.socket)
        found = _other_socket(proxied.comparable(), self.proxied.socket)
        if expected != found:
            raise AssertionError(f"direct: {direct}\nproxied: {proxied}")
        return proxied


def _other_socket(done: Done, path: Path) -> Done:
    name = str(path).encode()
    return Done(code=done.code, out=done.out.replace(name, b"<socket>"), err=done.err.replace(name, b"<socket>"))
