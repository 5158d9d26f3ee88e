"""Feeds the hook server: writes the document about the node whenever it changes.

A disk that is full or cannot be written to is tried again; the hook server goes on with what it has.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from interpose.agent.choice import Seen
from interpose.agent.nodestate import Check, SloPhase, SloState, decide, slo_in
from interpose.agent.pusher import Idle, idle
from interpose.agent.statefile import StateFile
from interpose.instrumentation.logging import RateLimited
from interpose.kube.api import Object
from interpose.kube.backoff import Backoff

_log = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0


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
        self._pause = pause
        self._good: Object | None = None
        self._written: str | None = None
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
            await self._pause(self._wake, delay)

    async def _remember(self) -> None:
        try:
            text = await asyncio.to_thread(self._file.read)
        except (OSError, ValueError) as error:
            _log.warning("Node state file could not be read", extra={"kv": {"file": self._file.path, "err": error}})
            return
        if text is not None and not self._check(text):
            self._good = slo_in(text, self._node)

    async def _feed(self) -> float | None:
        """Write what is to be written; the pause until the next try if that failed."""
        outcome = decide(self._seen_node(), self._seen_slo(), good=self._good, keep=self._keep, check=self._check)
        self._good = outcome.good
        self._tell(outcome.slo)
        if outcome.text is None or outcome.text == self._written:
            return None
        try:
            written = await asyncio.to_thread(self._file.write, outcome.text)
        except (OSError, ValueError) as error:
            return self._failed(error)
        self._written, self.problem = outcome.text, ""
        self._backoff.reset()
        if written:
            self.outcomes["written"] += 1
            kv = {"file": self._file.path, "nodeslo": outcome.slo.phase.value}
            _log.info("Node state file was written", extra={"kv": kv})
        return None

    def _failed(self, error: Exception) -> float:
        self.outcomes["failed"] += 1
        self.problem = f"file {self._file.path}: {error}"
        self._limited.log(
            logging.ERROR, "Node state file could not be written", key=str(error), file=self._file.path, err=str(error)
        )
        return self._backoff.next()

    def _tell(self, slo: SloState) -> None:
        if slo == self.slo:
            return
        self.slo = slo
        if slo.phase is SloPhase.REJECTED:
            self._limited.log(
                logging.ERROR,
                "NodeSLO was rejected, the last good one stays",
                key=slo.version,
                version=slo.version,
                problems="; ".join(slo.problems),
            )
        self._on_slo(slo)
