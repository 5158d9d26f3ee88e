"""The dump of calls in a relay process.

Built if a dump or a recording is wanted, or when a reader attaches to the admin socket for the first time; a relay
without readers has none of it, and is not tapped.
"""

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from socket import socket
from typing import Any, Final

from interpose import __version__
from interpose.config.dump_rules import DumpTarget, Rules, parse_rules
from interpose.config.relay.settings import DumpSettings, RelaySettings
from interpose.core.model.text import quoted
from interpose.cri.methods import METHODS
from interpose.dump.capture.metrics import dump_families
from interpose.dump.capture.queue import FrameQueue
from interpose.dump.capture.supervisor import WorkerSupervisor
from interpose.dump.capture.tap import DumpTap
from interpose.dump.capture.worker_config import WorkerConfig
from interpose.dump.filter.regex_timeout import RegexTimeout, RegexTimeoutError
from interpose.dump.model.call import SESSION
from interpose.dump.model.frames import VERSION, Header, encode
from interpose.errors import ConfigError
from interpose.metrics import Family
from interpose.net.httpd.routes import BadRequestError, Hijack, ServerRequest, ServerResponse, error_response
from interpose.relay.api import Interest
from interpose.relay.subscriptions import Subscriptions

_log = logging.getLogger(__name__)

# Readers at the same time; each costs a copy of everything.
MOST_ATTACHED: Final = 8
# Seconds for a reader that leaves to take what is left.
_CLOSE_TIMEOUT: Final = 2.0
_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.interpose.crirec\r\n"
    b"cache-control: no-store\r\nconnection: close\r\n\r\n"
)
_RULES_TIME: Final = 1.0  # seconds; half a millisecond is usual
_EVERYTHING: Final = "reset,full:.*"
_ASKED: Final = {"full": Interest.MESSAGES, "calls": Interest.CALLS, "others": Interest.MESSAGES}
_INTERESTS: Final = {
    DumpTarget.OFF: Interest.NONE,
    DumpTarget.SHORT: Interest.CALLS,
    DumpTarget.COUNT: Interest.CALLS,
    DumpTarget.FULL: Interest.MESSAGES,
}


def is_dump_enabled(settings: DumpSettings) -> bool:
    """Whether the settings ask for a dump or a recording."""
    return bool(settings.record) or parse_rules(settings.rules).enabled


def check_dump(settings: DumpSettings) -> None:
    """ConfigError if a file cannot be written where it shall be, or if rules take so long to evaluate that no call
    would be served meanwhile."""
    if problems := [*rule_problems(settings), *file_problems(settings)]:
        raise ConfigError(problems)


def rule_problems(settings: DumpSettings) -> Iterator[str]:
    """Problems of the rules that do not depend on the machine."""
    try:
        with RegexTimeout(_RULES_TIME).limited():
            compute_interests(parse_rules(settings.rules))
    except RegexTimeoutError:
        yield f"dump.rules: {quoted('; '.join(settings.rules))} takes too long, simplify its expressions"


def file_problems(settings: DumpSettings) -> Iterator[str]:
    """Problems of the files on this machine."""
    for key, value in (("dump.file", settings.file), ("dump.record", settings.record)):
        path = Path(value)
        if not value:
            continue
        if not path.parent.is_dir():
            yield f"{key}: {quoted(value)} cannot be written, {quoted(str(path.parent))} is not a directory"
        elif path.is_dir():
            yield f"{key}: {quoted(value)} is a directory"


def compute_interests(rules: Rules) -> dict[str, Interest]:
    """How much of each method these rules want, evaluated once: expressions can be slow, and calls cannot wait.

    Of unknown methods, which have the empty name, everything: readers look at their names.
    """
    table = {name: _INTERESTS[rules.target(name)] for name in METHODS}
    return table | {"": Interest.MESSAGES if rules.enabled else Interest.NONE}


def parse_interests(query: Iterable[tuple[str, str]]) -> dict[str, Interest]:
    """How much a reader wants: `full` and `calls` list names of methods, `others` stands for unknown methods.

    Names only, no expressions: those are for the reader's own process to work out. An empty query: everything.
    """
    table: dict[str, Interest] = {}
    for key, value in query:
        if key not in _ASKED:
            raise BadRequestError(f"{quoted(key)} is not known here, only {', '.join(_ASKED)}")
        names = filter(None, value.split(",")) if key != "others" else [""]
        for name in names:
            if name and name not in METHODS:
                raise BadRequestError(f"{key}: {quoted(name)} is not a CRI method")
            table[name] = _ASKED[key]
    return table or dict.fromkeys((*METHODS, ""), Interest.MESSAGES)


class DumpPart:
    """The tap, the dump worker, and the readers that are attached."""

    def __init__(self, settings: RelaySettings, relay: Subscriptions, endpoints: Mapping[str, str]) -> None:
        self._settings = settings.dump
        self._succeeds = settings.process.take_over
        self._log_format = settings.logging.format
        self._relay = relay
        self._tapped = False
        self.tap = DumpTap(time.time_ns, time.monotonic_ns, self._on_readers)
        self._supervisor: WorkerSupervisor | None = None
        self._attached = 0
        self._facts = {
            "version": VERSION,
            SESSION: uuid.uuid4().hex,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "host": os.uname().nodename,
            "interpose": __version__,
            "pid": os.getpid(),
            **endpoints,
        }

    def start(self) -> None:
        """Start the worker process, if the settings ask for a dump or a recording."""
        dump = self._settings
        if not is_dump_enabled(dump):
            return
        if dump.redact.strip() == "none":
            _log.warning(
                "Redaction is off: dumps and recordings hold registry credentials, values of the environment, tokens "
                "and output of commands as they pass",
                extra={"kv": {"setting": "dump.redact", "value": dump.redact}},
            )
        config = WorkerConfig(
            rules=dump.rules,
            file=dump.file,
            empty_file=not self._succeeds,
            log=dump.log,
            log_format=self._log_format,
            count_period=dump.count_period,
            redact=dump.redact,
            record=dump.record,
            record_size=dump.record_size,
            record_files=dump.record_files,
        )
        interest = compute_interests(parse_rules([_EVERYTHING] if dump.record else dump.rules))
        self._supervisor = WorkerSupervisor(self.tap, config, self._facts, lambda: self._new_queue("scribe", interest))
        self._supervisor.start()

    def _new_queue(self, name: str, table: Mapping[str, Interest]) -> FrameQueue:
        return FrameQueue(
            name, lambda method: table.get(method, Interest.NONE), limit=self._settings.queue, wall=time.time_ns
        )

    def _on_readers(self) -> None:
        """Readers came or went: a relay without readers is not tapped."""
        if bool(self.tap.queues) == self._tapped:
            self._relay.refresh()
        elif self._tapped:
            self._tapped = False
            self._relay.remove_tap(self.tap)
        else:
            self._tapped = True
            self._relay.add_tap(self.tap)

    async def close(self) -> None:
        """Let the dump worker write what it has, and end it."""
        if self._supervisor is not None:
            await self._supervisor.close()

    # -- readers of the admin socket

    async def attach(self, request: ServerRequest) -> ServerResponse | Hijack:
        """`GET /v1/dump?full=NAMES&calls=NAMES&others=`: frames of what passes from now on, until the client leaves."""
        if request.peer is None:
            return error_response(403, "messages are shown on a unix admin socket only: they may hold secrets")
        if self._attached >= MOST_ATTACHED:
            return error_response(429, f"{MOST_ATTACHED} readers are attached already")
        table = parse_interests(request.query)

        async def stream(sock: socket) -> None:
            await self._stream(sock, self._new_queue("attached", table))

        return Hijack(stream)

    async def _stream(self, sock: socket, queue: FrameQueue) -> None:
        loop = asyncio.get_running_loop()
        queue.put(encode(Header(facts=self._facts)))
        self._attached += 1
        self.tap.attach(queue)  # before it is answered: from the answer on it sees everything
        try:
            await loop.sock_sendall(sock, _HEAD)
            async with asyncio.TaskGroup() as group:
                writing = group.create_task(queue.run(sock), name="frames for a reader")
                while await loop.sock_recv(sock, 4096):  # it has nothing to say; an end is an end
                    pass
                # It has seen enough. What passed until now is still for it, if it listens.
                self.tap.detach(queue)
                queue.finish()
                async with asyncio.timeout(_CLOSE_TIMEOUT):
                    await writing
        except* OSError as gone:
            _log.debug("Reader of the dump left", extra={"kv": {"err": str(gone.exceptions[0])}})
        finally:
            self._attached -= 1
            self.tap.detach(queue)

    # -- views

    def collect(self) -> Iterable[Family]:
        """Metrics of queues, losses and the worker process."""
        return dump_families(
            self.tap.losses, self.tap.queues, {} if self._supervisor is None else self._supervisor.report
        )

    def summary(self) -> dict[str, Any]:
        """The part of a status about the dump."""
        dump = self._settings
        worker = self._supervisor
        return {
            "readers": len(self.tap.queues),
            "dropped": sum(
                value
                for (_, what), value in self.tap.losses.totals(self.tap.queues).items()
                if what.endswith("dropped")
            ),
            **({} if worker is None else {"pid": worker.pid, "starts": worker.starts, "redact": dump.redact}),
            **({} if worker is None or not dump.record else {"record": dump.record}),
            **({} if worker is None or not dump.rules else {"rules": list(dump.rules)}),
            **({} if worker is None or not dump.file else {"file": dump.file}),
            **({} if worker is None or not worker.report.get("error") else {"error": worker.report["error"]}),
        }
