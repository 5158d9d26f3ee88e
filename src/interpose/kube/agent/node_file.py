"""Feeds the hook server: writes the document about the node whenever it changes.

A NodeSLO is looked at once for each version of it, beside the loop. A file that somebody took away comes back. However
often annotations of the Node change, the file does so once a second at most. A disk that is full or cannot be written
to is tried again; the hook server goes on with what it has.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from interpose.kube.agent.configmap_choice import Seen
from interpose.kube.agent.node_document import (
    Check,
    Judged,
    SloPhase,
    SloState,
    judge,
    node_part,
    node_state,
    slo_in,
    slo_in_force,
    text_of,
)
from interpose.kube.agent.statefile import StateFile
from interpose.kube.client.api import Object
from interpose.log import RateLimited
from interpose.net.http.backoff import Backoff
from interpose.waking import LEAST_PAUSE, Idle, idle

_log = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
# Between two writes: each is a reload of the hook server.
SPACING: Final = 1.0
# How often we look whether the file is still there.
LOOK: Final = 60.0


class NodeFeed:
    """`on_slo` is called when there is something new to tell about the NodeSLO."""

    def __init__(
        self,
        file: StateFile,
        *,
        node: str,
        seen_node: Callable[[], Seen],
        seen_slo: Callable[[], Seen],
        check: Check,
        on_slo: Callable[[SloState], None],
        deleted: str = "keep",
        now: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        pause: Idle = idle,
    ) -> None:
        self.slo = SloState()
        self.problem = ""  # of the file
        self.outcomes: Counter[str] = Counter()  # written, failed
        self._file = file
        self._node = node
        self._seen_node = seen_node
        self._seen_slo = seen_slo
        self._check = check
        self._on_slo = on_slo
        self._keep = deleted == "keep"
        self._backoff = Backoff(chance, first=_FIRST_PAUSE, most=_LONGEST_PAUSE)
        self._now = now
        self._pause = pause
        self._judged: Judged | None = None
        self._good: Object | None = None
        self._part: tuple[Object, tuple[str, ...]] = ({}, ())  # of the Node, and what is wrong with it
        self._written: dict[str, Any] | None = None
        self._written_at: float | None = None
        self._wake = asyncio.Event()
        self._limited = RateLimited(_log, clock=now)

    def poke(self) -> None:
        """The Node or the NodeSLO changed."""
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled. The file of an earlier run is read first: it has what outlives a NodeSLO."""
        await self._remember()
        while True:
            self._wake.clear()
            delay = await self._feed()
            await self._pause(self._wake, max(delay, LEAST_PAUSE))

    async def _remember(self) -> None:
        try:
            text = await asyncio.to_thread(self._file.read)
        except (OSError, ValueError) as error:
            _log.warning("Failed to read node state file", extra={"kv": {"file": self._file.path, "err": error}})
            return
        if text is not None:
            self._good = await asyncio.to_thread(slo_in, text, self._node, self._check)

    async def _feed(self) -> float:
        """Write what is to be written; the pause until the next look."""
        document = await self._document()
        if document is None:
            return LOOK
        try:
            if document == self._written and await asyncio.to_thread(self._file.is_as_written):
                return LOOK
            if self._written_at is not None and (wait := self._written_at + SPACING - self._now()) > 0:
                return wait
            written = await asyncio.to_thread(self._write, document)
        except (OSError, ValueError) as error:
            return self._failed(error)
        before, self._written, self.problem = self._written, document, ""
        self._backoff.reset()
        if written:
            self._written_at = self._now()
            self.outcomes["written"] += 1
            self._log_written(before, document)
        return LOOK

    async def _document(self) -> dict[str, Any] | None:
        """What the file is to hold; None if that is not known, or could not be used."""
        node, slo = self._seen_node(), self._seen_slo()
        if not node.known or node.object is None:
            self._tell(SloState())
            return None
        if slo.object is not None and (self._judged is None or not self._judged.is_of(slo.object)):
            self._judged = await asyncio.to_thread(judge, slo.object, self._check)
        self._good, state = slo_in_force(slo, self._judged, good=self._good, keep=self._keep)
        part = node_part(node.object)
        if part != self._part[0]:
            self._part = (part, tuple(self._check(node_state(part, None))))
        if problems := self._part[1]:
            self._tell(SloState(phase=SloPhase.REJECTED, problems=problems))
            return None
        self._tell(state)
        return node_state(part, self._good)

    def _write(self, document: Object) -> bool:
        return self._file.write(text_of(document))

    def _log_written(self, before: dict[str, Any] | None, document: dict[str, Any]) -> None:
        kv = {"file": self._file.path, "nodeslo": self.slo.phase.value}
        level = logging.DEBUG if before is not None and _plain(before) == _plain(document) else logging.INFO
        _log.log(level, "Node state file was written", extra={"kv": kv})

    def _failed(self, error: Exception) -> float:
        self.outcomes["failed"] += 1
        self.problem = f"file {self._file.path}: {error}"
        self._limited.log(
            logging.ERROR, "Failed to write node state file", key=str(error), file=self._file.path, err=str(error)
        )
        return self._backoff.next()

    def _tell(self, slo: SloState) -> None:
        if slo == self.slo:
            return
        self.slo = slo
        if slo.phase is SloPhase.REJECTED:
            self._limited.log(
                logging.ERROR,
                "NodeSLO rejected, keeping the last valid one",
                key=slo.version,
                version=slo.version,
                problems="; ".join(slo.problems),
            )
        self._on_slo(slo)


def _plain(document: dict[str, Any]) -> tuple[Any, Any]:
    """What is worth a line of the log: others may change annotations all the time."""
    return document["node"]["labels"], document.get("nodeSLO")
