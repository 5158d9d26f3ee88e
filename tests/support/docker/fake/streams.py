"""Answers without a length: events, logs, waiting for an exit, and connections that become streams of bytes.

A client that says it has no more to send ends an endless answer, as it does with dockerd.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

from interpose.tasks import TaskBag
from tests.support.docker.fake import filters, godocs, processes
from tests.support.docker.fake.containers import STDERR, STDOUT, Container, Exec, framed
from tests.support.docker.fake.engine import Engine
from tests.support.docker.fake.errors import DockerError
from tests.support.docker.fake.wire import JSON, SAID, Exchange, encode

EVENT_FILTERS = frozenset({"type", "event", "label", "container", "image", "scope", "daemon"})


class Streams:
    """The streams of one server."""

    def __init__(self, engine: Engine, tasks: TaskBag) -> None:
        self._engine = engine
        self._tasks = tasks

    async def events(self, exchange: Exchange) -> None:
        """What happens from now on, one line each; `since` and `until` in seconds."""
        wanted = filters.parse(exchange.query.get("filters", ""), EVENT_FILTERS)
        since, until = exchange.query.get("since", ""), exchange.query.get("until", "")
        log = self._engine.events
        seen = 0 if since or until else len(log)

        async def lines() -> AsyncIterator[bytes]:
            nonlocal seen
            while True:
                for event in log[seen:]:
                    seen += 1
                    if (not since or event["time"] >= float(since)) and _event_fits(event, wanted):
                        yield encode(event)
                if until:
                    return
                await self._engine.changes.until(partial(_longer, log, seen))

        await exchange.begin(JSON)
        await self._pour(exchange, lines())

    async def logs(self, exchange: Exchange, container: Container) -> None:
        """What the process said; with `follow` until it ends."""
        chosen = {number for number, name in ((STDOUT, "stdout"), (STDERR, "stderr")) if exchange.flag(name)}
        if not chosen:
            raise DockerError(400, "Bad parameters: you must choose at least one stream")
        await exchange.begin()
        await self._pour(exchange, self._said(container, chosen, 0, follow=exchange.flag("follow")))

    async def wait(self, exchange: Exchange, container: Container) -> None:
        """The exit code, once there is one; the head comes at once."""
        before = container.exits
        over: dict[str, Callable[[], bool]] = {
            "next-exit": lambda: container.exits > before,
            "removed": lambda: container.removed,
        }
        done = over.get(exchange.query.get("condition", ""), lambda: not container.running)

        async def lines() -> AsyncIterator[bytes]:
            await self._engine.changes.until(done)
            yield encode({"Error": None, "StatusCode": container.exit_code})

        await exchange.begin(JSON)
        cut = await self._pour(exchange, lines(), end=False)
        if cut:
            await exchange.chunk(encode({"Error": {"Message": "context canceled"}, "StatusCode": -1}))
        await exchange.end()

    async def attach(self, exchange: Exchange, container: Container) -> None:
        """Input and output of the container's process."""
        chosen = {number for number, name in ((STDOUT, "stdout"), (STDERR, "stderr")) if exchange.flag(name)}
        tty = bool(container.config["Tty"])
        seen = 0 if exchange.flag("logs") else len(container.logs)
        stdin = exchange.flag("stdin") and bool(container.config["OpenStdin"])
        await exchange.hijack({})
        if not exchange.flag("stream"):
            return
        feeding = self._tasks.spawn(self._feed(exchange, container, stdin), name="fakedocker-attach-in")
        try:
            async for data in self._said(container, chosen, seen, follow=True, until_exit=container.exits + 1, tty=tty):
                await exchange.send(data)
        finally:
            feeding.cancel()

    async def exec_start(self, exchange: Exchange, one: Exec) -> None:
        """Input and output of a process inside; `Detach` runs it without."""
        detached = bool(godocs.field(godocs.parse(await exchange.body()), "Detach", False))
        if one.begun:
            raise DockerError(409, f"Error: Exec command {one.id} has already run")
        self._engine.begin_exec(one)
        if detached:
            self._engine.end_exec(one, processes.exit_code(one.argv))
            await exchange.answer(200, b"")
            return
        await exchange.hijack(SAID)
        try:
            async for stream, data in processes.output(one.argv, exchange.read):
                await exchange.send(framed(stream, data, tty=one.tty))
        finally:
            self._engine.end_exec(one, processes.exit_code(one.argv))

    async def run(self, container: Container) -> None:
        """What the process of a started container does by itself."""
        if processes.ends_at_once(container.argv):
            async for stream, data in processes.output(container.argv, _nothing):
                self._engine.write(container, data, stream)
            self._engine.exited(container.id, processes.exit_code(container.argv))

    # -- within

    async def _feed(self, exchange: Exchange, container: Container, stdin: bool) -> None:
        """Input goes to the process, which repeats it if it is `cat`; its end ends the process."""
        while data := await exchange.read():
            if stdin and processes.program(container.argv) == "cat":
                await self._engine.changes.until(lambda: container.running or container.exits > 0)
                self._engine.write(container, data)
        if stdin and container.running and container.config["StdinOnce"]:
            self._engine.exited(container.id, 0)

    async def _said(
        self,
        container: Container,
        chosen: set[int],
        seen: int,
        *,
        follow: bool,
        until_exit: int = 0,
        tty: bool | None = None,
    ) -> AsyncIterator[bytes]:
        plain = bool(container.config["Tty"]) if tty is None else tty

        def over() -> bool:
            ended = container.exits >= until_exit if until_exit else not container.running
            return container.removed or ended

        while True:
            while seen < len(container.logs):
                stream, data = container.logs[seen]
                seen += 1
                if stream in chosen:
                    yield framed(stream, data, tty=plain)
            if not follow or over():
                return
            await self._engine.changes.until(partial(_longer, container.logs, seen, over))

    async def _pour(self, exchange: Exchange, lines: AsyncIterator[bytes], *, end: bool = True) -> bool:
        """Send chunks until they end, or the client does. True if the client did."""
        pouring = self._tasks.spawn(_chunks(exchange, lines), name="fakedocker-stream")
        leaving = self._tasks.spawn(exchange.left(), name="fakedocker-leaving")
        try:
            await asyncio.wait({pouring, leaving}, return_when=asyncio.FIRST_COMPLETED)
            cut = not pouring.done()
        finally:
            for task in (pouring, leaving):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        if end:
            await exchange.end()
        return cut


async def _chunks(exchange: Exchange, lines: AsyncIterator[bytes]) -> None:
    async for data in lines:
        await exchange.chunk(data)


def _longer(log: Sequence[object], seen: int, over: Callable[[], bool] = lambda: False) -> bool:
    return len(log) > seen or over()


async def _nothing() -> bytes:
    return b""


def _event_fits(event: dict[str, Any], wanted: filters.Filters) -> bool:
    actor = event["Actor"]
    name = actor["Attributes"].get("name", "")
    return (
        filters.one_of(wanted, "type", event["Type"])
        and filters.one_of(wanted, "event", event["Action"], event["Action"].partition(":")[0])
        and filters.one_of(wanted, "container", actor["ID"], name)
        and filters.labels_match(wanted, actor["Attributes"])
    )
