"""Who is measured: each contestant is started in front of a backend socket and is one process by pid."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.lab.load import haproxy
from tests.support.lab.processes import Child, missing_programs
from tests.support.lab.relay import program, relay_argv

if TYPE_CHECKING:
    from collections.abc import Callable

DIRECT, YARDSTICK, OURS, COMPILED, BEFORE = "direct", "haproxy", "interpose", "compiled", "before"
BUILDS = (OURS, COMPILED)
# Made by `make native`.
COMPILED_PROGRAM = Path(__file__).resolve().parents[1] / "build/venv-native/bin/interpose"
# Bytecode is cached on a real node; some machines switch that off, which would only measure the compiler.
CACHED_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A proxy: `start(folder, listen, backend)` returns it listening; None for no proxy at all."""

    name: str
    title: str
    start: Callable[[Path, Path, Path], Child] | None
    missing: Callable[[], str | None]
    # Share of the calls that this contestant is given: a slow one would only make the run long.
    share: float = 1.0
    # A process for each connection, whose CPU time counts only once it has ended.
    forks: bool = False


def contestants(before: Path | None = None) -> tuple[Contestant, ...]:
    """All of them; `before` is the program of another version, measured beside them."""
    return (
        Contestant(name=DIRECT, title="none (direct)", start=None, missing=lambda: None),
        Contestant(
            name="socat", title="socat (bytes)", start=_socat, missing=lambda: missing_programs("socat"), forks=True
        ),
        Contestant(name=YARDSTICK, title="HAProxy, 1 thread", start=haproxy.start, missing=haproxy.missing),
        Contestant(name="grpcaio", title="grpc.aio pass-through", start=_grpcaio, missing=lambda: None, share=0.2),
        Contestant(name=OURS, title="interpose", start=partial(_interpose, program()), missing=no_interpose),
        Contestant(
            name=COMPILED,
            title="interpose, compiled",
            start=partial(_interpose, COMPILED_PROGRAM),
            missing=no_compiled,
        ),
        *(
            [
                Contestant(
                    name=BEFORE, title="interpose, before", start=partial(_interpose, before), missing=lambda: None
                )
            ]
            if before
            else ()
        ),
    )


def _socat(folder: Path, listen: Path, backend: Path) -> Child:
    # fork: one child per connection; its CPU time shows up in the parent when the connection has ended.
    argv = ["socat", "-b65536", f"UNIX-LISTEN:{listen},fork,unlink-early", f"UNIX-CONNECT:{backend}"]
    return _listening(argv, folder, listen)


def _grpcaio(folder: Path, listen: Path, backend: Path) -> Child:
    script = Path(__file__).with_name("grpcaio_proxy.py")
    return _listening([sys.executable, str(script), str(listen), str(backend)], folder, listen)


def _interpose(executable: Path, folder: Path, listen: Path, backend: Path) -> Child:
    _, *options = relay_argv(listen, backend, listen.with_name(f"{listen.name}.admin"))
    return _listening([str(executable), *options], folder, listen)


def no_compiled() -> str | None:
    return None if COMPILED_PROGRAM.exists() else "`make native` has not been run"


def no_interpose() -> str | None:
    return None if program().exists() else f"{program()} is not there; install the project first"


def _listening(argv: list[str], folder: Path, listen: Path) -> Child:
    child = Child(argv, log=folder / f"{listen.name}.log", env=CACHED_BYTECODE)
    child.wait_listening(listen)
    return child
