"""The fake Docker on its unix socket.

    async with FakeDocker(folder / "docker.sock") as docker:
        docker.engine.exited("k8s_main_web_default_1_0", 1)
        docker.faults.fail("create", 500, "no space left on device")
        assert docker.journal[-1].body == b"..."

It runs on the loop of the test, so that a test may look into it and change it between two awaits. `docker.changes` is
notified of requests, answers and everything that happens to containers. As a process of its own:
`python -m tests.support.docker.fake SOCKET`.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from interpose.log import kv
from interpose.tasks import TaskBag
from interpose.testing.failpoints import When
from tests.support.docker.fake.api import KINDS, OTHER, Api, find_route
from tests.support.docker.fake.containers import Container, Image
from tests.support.docker.fake.engine import Engine
from tests.support.docker.fake.errors import DockerError
from tests.support.docker.fake.faults import DropError, Faults
from tests.support.docker.fake.streams import Streams
from tests.support.docker.fake.wire import Exchange, GoneError, Wire

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Noted:
    """A request that came. `status` is 0 until it is answered; `connection` counts from 1."""

    kind: str
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    connection: int
    body: bytes = b""
    status: int = 0

    def header(self, name: str) -> str:
        """The first value, or nothing."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")


class FakeDocker:
    """One dockerd. `driver`: cgroupfs or systemd. Stopped and started again it has the containers it had."""

    def __init__(
        self,
        path: str | Path,
        *,
        driver: str = "cgroupfs",
        images: Iterable[Image] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        self.engine = Engine(now=now, images=images)
        self.changes = self.engine.changes
        self.faults = Faults(KINDS)
        self.journal: list[Noted] = []
        self.accepted = 0
        self._tasks = TaskBag()
        self._wires: set[Wire] = set()
        self._listening: asyncio.Server | None = None
        self.api = Api(self.engine, Streams(self.engine, self._tasks), driver=driver, root="/var/lib/docker")

    # -- for tests

    @property
    def containers(self) -> list[Container]:
        """All of them, in the order they were made."""
        return list(self.engine.containers.values())

    @property
    def connections(self) -> int:
        """How many are open now."""
        return len(self._wires)

    def container(self, ref: str) -> Container:
        """By id, name or the beginning of an id; KeyError if there is none."""
        try:
            return self.engine.find(ref)
        except DockerError as error:
            raise KeyError(error.message) from None

    def calls(self, *kinds: str) -> list[Noted]:
        """What came, or what of it is of these kinds."""
        return [noted for noted in self.journal if not kinds or noted.kind in kinds]

    def break_connections(self) -> None:
        """All of them, now; the socket stays."""
        for wire in list(self._wires):
            wire.abort()

    # -- life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.faults.clear()
        await self.stop()

    async def start(self) -> None:
        """Listen."""
        self.path.unlink(missing_ok=True)
        self._listening = await asyncio.start_unix_server(self._accept, str(self.path))

    async def stop(self) -> None:
        """Listen no more and break all connections."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.close()
        self.break_connections()
        await self._tasks.cancel()
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()

    async def restart(self, *, containers_die: bool = False) -> None:
        """Down and up again, on the same socket."""
        await self.stop()
        if containers_die:
            self.engine.crash()
        await self.start()

    # -- the way of a request

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        wire = Wire(reader, writer)
        if self.faults.refusing:
            wire.abort()
            return
        self._wires.add(wire)
        self._tasks.spawn(self._converse(wire, self.accepted), name="fakedocker-connection")

    async def _converse(self, wire: Wire, number: int) -> None:
        try:
            while (exchange := await wire.next()) is not None:
                if not await self._serve(exchange, number):
                    break
        except (GoneError, DropError, OSError) as error:
            wire.abort()
            _log.debug("Connection ended", extra=kv(err=str(error)))
        finally:
            wire.close()
            self._wires.discard(wire)
            self.changes.notify()

    async def _serve(self, exchange: Exchange, number: int) -> bool:
        noted = Noted(
            kind=OTHER, method=exchange.method, target=exchange.target, headers=exchange.headers, connection=number
        )
        self.journal.append(noted)
        exchange.on_body = lambda data: _note_body(noted, data)
        self.changes.notify()
        try:
            await self._act(exchange, noted)
        except DockerError as error:
            await exchange.answer(error.status, {"message": error.message})
        finally:
            noted.status = exchange.status
            self.changes.notify()
        return exchange.keep

    async def _act(self, exchange: Exchange, noted: Noted) -> None:
        route, ref = find_route(exchange.method, exchange.path)
        noted.kind = route.kind if route is not None else OTHER
        self.changes.notify()
        if (raw := self.faults.raw(noted.kind)) is not None:
            await exchange.body()
            exchange.keep = False
            await exchange.send(raw)
            return
        await self.faults.enter(noted.kind, When.BEFORE)
        exchange.half = self.faults.breaks_off(noted.kind)
        exchange.before_answer = lambda: self.faults.enter(noted.kind, When.AFTER)
        if route is None:
            exchange.said = {}  # no handler of Docker's was reached
            raise DockerError(404, "page not found")
        await route.handler(self.api, exchange, ref)


def _note_body(noted: Noted, data: bytes) -> None:
    """Bodies of images are counted, not kept."""
    if noted.kind != "load":
        noted.body += data
