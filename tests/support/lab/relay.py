"""Our own relay as a separate process, started the way an operator starts it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from interpose.cli.common.admin_client import ask
from interpose.testing.hookserver import register
from tests.support.lab.processes import Child, LabError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DOCKER: Final = ("--backend", "docker")
"""Options of a relay in front of dockerd."""
_HOOKS_DIR: Final = "hookserver.d"


def program(name: str = "interpose") -> Path:
    """The installed command next to this interpreter."""
    return Path(sys.executable).parent / name


def relay_argv(listen: Path, runtime: Path, admin: Path, *options: str) -> list[str]:
    """The command line of a relay. Unless options say otherwise, hook servers and state are looked for beside its
    socket: the machine may be somebody's node."""
    sockets = ["--listen", str(listen), "--runtime-endpoint", str(runtime), "--admin-listen", str(admin)]
    places = ["--hooks-dir", str(listen.parent / _HOOKS_DIR), "--state-dir", str(listen.parent / "state")]
    return [str(program()), "relay", *sockets, *places, *options]


def hooks_dir(folder: Path) -> Path:
    """Where hook servers register with a relay in this folder; it is made if need be."""
    directory = folder / _HOOKS_DIR
    directory.mkdir(mode=0o755, exist_ok=True)
    return directory


def hook_options(folder: Path) -> tuple[str, ...]:
    """Options of a relay with a directory for registrations of its own."""
    return ("--hooks-dir", str(hooks_dir(folder)))


class Relay:
    """`interpose relay` in front of one runtime socket; the paths stay the same over restarts.

    `executable` is another installation of the program than the one beside this interpreter.
    """

    def __init__(
        self, folder: Path, runtime: Path, options: Sequence[str] = (), executable: Path | None = None
    ) -> None:
        self.socket = folder / "relay.sock"
        self.admin = folder / "admin.sock"
        self.log = folder / "relay.log"
        self._folder = folder
        self._runtime = runtime
        self._options = tuple(options)
        self._executable = executable
        # All that were started: an old relay that does not end by itself must still be stopped.
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for child in reversed(self._children):
            child.stop()

    @property
    def child(self) -> Child:
        if not self._children:
            raise LabError("the relay was not started")
        return self._children[-1]

    def start(self, *options: str) -> None:
        """Start a process and wait until it listens."""
        self._spawn(*options).wait_listening(self.socket)

    def kill(self) -> None:
        self.child.kill()

    @property
    def hooks_dir(self) -> Path:
        """Where hook servers register if it was started with `hook_options`."""
        return hooks_dir(self._folder)

    def hooks(self) -> Any:
        """What the relay says about hook servers."""
        return ask(str(self.admin), "GET", "/v1/hooks")

    def wait_hooks(self, **states: str | None) -> None:
        """Wait until these hook servers, by name, are in these states; None: not in force."""

        def reached() -> bool:
            found = {one["name"]: one["state"] for one in self.hooks()["plugins"]}
            return all(found.get(name) == state for name, state in states.items())

        self.child.wait_listening(self.admin)
        self.child.wait_until(reached, what=f"the hook servers to be {states}", every=0.02)

    @contextmanager
    def registered(self, name: str, socket: Path, **more: Any) -> Iterator[None]:
        """The hook server on this socket is in force and connected inside the block; `more` as for `register`."""
        file = register(self.hooks_dir, name, socket, **more)
        try:
            self.wait_hooks(**{name: "connected"})
            yield
        finally:
            file.unlink()
            if self.child.running:
                self.wait_hooks(**{name: None})

    def take_over(self) -> Child:
        """Start a successor that takes the socket over; returns the old process, which drains and ends by itself."""
        old = self.child
        new = self._spawn("--take-over")
        code = old.wait()
        if code != 0:
            raise old.error(f"ended with {code} when it was taken over")
        if not new.running:
            raise new.error(f"ended with {new.exit_code} while it took over")
        return old

    def _spawn(self, *options: str) -> Child:
        argv = relay_argv(self.socket, self._runtime, self.admin, *self._options, *options)
        if self._executable is not None:
            argv[0] = str(self._executable)
        child = Child(argv, log=self.log)
        self._children.append(child)
        return child


class KoordRuntimeProxy(Relay):
    """`koord-runtime-proxy` in front of dockerd, with the flags a node has and the rest in its environment."""

    def _spawn(self, *options: str) -> Child:
        flags = {
            "koord-runtimeproxy-endpoint": self.socket,
            "remote-runtime-service-endpoint": self._runtime,
            "backend-runtime-mode": "Docker",
        }
        argv = [str(program("koord-runtime-proxy")), *(f"--{name}={value}" for name, value in flags.items()), *options]
        env = {"INTERPOSE_ADMIN_LISTEN": str(self.admin), "INTERPOSE_HOOKS_DIR": str(self.hooks_dir)}
        child = Child(argv, log=self.log, env=env)
        self._children.append(child)
        return child
