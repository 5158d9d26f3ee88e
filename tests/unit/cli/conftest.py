"""What the tests of commands share: a relay that only remembers its settings, and a real admin server."""

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from interpose.config.relay.settings import RelaySettings
from interpose.net.httpd.routes import RouteTable
from interpose.net.httpd.server import AdminServer


class FakeProcess(ModuleType):
    """Stands for `interpose.cli.relay.process`: remembers what it was run with and answers with an exit code."""

    def __init__(self) -> None:
        super().__init__("interpose.cli.relay.process")
        self.runs: list[RelaySettings] = []
        self.origins: Mapping[str, str] = {}
        self.exit_code = 0
        self.error: Exception | None = None

    def run(self, settings: RelaySettings, origins: Mapping[str, str]) -> int:
        """Remember, and end as told."""
        self.runs.append(settings)
        self.origins = origins
        if self.error:
            raise self.error
        return self.exit_code


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> FakeProcess:
    """The relay that commands will start."""
    fake = FakeProcess()
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    return fake


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes a file and gives its path."""

    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o644)
        return path

    return written


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the developer's shell must not reach a test."""
    for name in list(os.environ):
        if name.startswith("INTERPOSE_"):
            monkeypatch.delenv(name)


@contextmanager
def _serving(path: Path, routes: RouteTable) -> Iterator[str]:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()
    started = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def story() -> None:
        server = AdminServer(listener, routes)
        server.start()
        started.set()
        await stop.wait()
        await server.close()
        await loop.shutdown_default_executor()

    thread = threading.Thread(target=loop.run_until_complete, args=(story(),))
    thread.start()
    started.wait()
    try:
        yield str(path)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[RouteTable], str]]:
    """Serves a route table on an admin socket in a thread and gives its address."""
    with ExitStack() as stack:
        yield lambda routes: stack.enter_context(_serving(tmp_path / "admin.sock", routes))
