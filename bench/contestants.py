"""Who is measured: each contestant is started in front of a backend socket and is one process by pid."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.lab.load import haproxy
from tests.support.lab.processes import Child, missing_programs
from tests.support.lab.relay import program, relay_argv

if TYPE_CHECKING:
    from collections.abc import Callable

DIRECT, YARDSTICK, OURS = "direct", "haproxy", "interpose"
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


def contestants() -> tuple[Contestant, ...]:
    return (
        Contestant(name=DIRECT, title="none (direct)", start=None, missing=lambda: None),
        Contestant(name="socat", title="socat (bytes)", start=_socat, missing=lambda: missing_programs("socat")),
        Contestant(name=YARDSTICK, title="HAProxy, 1 thread", start=haproxy.start, missing=haproxy.missing),
        Contestant(name="grpcaio", title="grpc.aio pass-through", start=_grpcaio, missing=lambda: None, share=0.2),
        Contestant(name=OURS, title="interpose", start=_interpose, missing=no_interpose),
    )


def _socat(folder: Path, listen: Path, backend: Path) -> Child:
    # fork: one child per connection; its CPU time shows up in the parent when the connection has ended.
    argv = ["socat", "-b65536", f"UNIX-LISTEN:{listen},fork,unlink-early", f"UNIX-CONNECT:{backend}"]
    return _listening(argv, folder, listen)


def _grpcaio(folder: Path, listen: Path, backend: Path) -> Child:
    script = Path(__file__).with_name("grpcaio_proxy.py")
    return _listening([sys.executable, str(script), str(listen), str(backend)], folder, listen)


def _interpose(folder: Path, listen: Path, backend: Path) -> Child:
    admin = listen.with_name(f"{listen.name}.admin")
    return _listening(relay_argv(listen, backend, admin), folder, listen)


def no_interpose() -> str | None:
    return None if program().exists() else f"{program()} is not there; install the project first"


def _listening(argv: list[str], folder: Path, listen: Path) -> Child:
    child = Child(argv, log=folder / f"{listen.name}.log", env=CACHED_BYTECODE)
    child.wait_listening(listen)
    return child
