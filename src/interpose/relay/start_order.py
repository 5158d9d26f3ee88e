"""The order of StartContainer and UpdateContainerResources of one container: an update never overtakes a start.

Below all interceptors that write, so that the rule of `cri.store.starts` holds for updates of the kubelet, of hook
servers and of our own parts alike. No call waits for ever: after half of what its caller has left, and the limits
below, it goes on, and `StartTracker.on_lost` is called for that container.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from interpose.core.backoff import Backoff
from interpose.core.model.pod import ContainerState
from interpose.cri.errors import UnreadableMessageError
from interpose.cri.store.starts import StartTracker
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.api import Call, Proceed, Reply
from interpose.relay.store_updates import has_unknown_outcome
from interpose.tasks import TaskBag

# Seconds: for an update that is on its way, for a start that is in flight.
_UPDATE: Final = 2.0
_START: Final = 30.0
# Seconds from one look to the next at a container whose start is in doubt. One that waits to be started after the last
# is not being started; should it run all the same, the next list shows it.
_LOOKS: Final[tuple[float, ...]] = (0.05, 0.1, 0.2, 0.4, 0.8, 1.5)
_AWAY: Final = 5.0  # seconds at most between looks at a runtime that does not answer; containers in doubt may be many
_UNANSWERED: Final = 120  # looks in a row: ten minutes, after which no runtime is still at that start
_BEGUN: Final = frozenset((ContainerState.RUNNING, ContainerState.EXITED))


class StartOrder:
    """The interceptor that orders starts and updates. `clock` is the loop's."""

    name = "start-order"
    methods = ("StartContainer", "UpdateContainerResources")
    tidy = True  # it changes nothing

    def __init__(
        self,
        starts: StartTracker,
        store: Store,
        sync: Synchronizer,
        clock: Callable[[], float],
        looks: Sequence[float] = _LOOKS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._starts = starts
        self._store = store
        self._sync = sync
        self._clock = clock
        self._looks = looks
        self._sleep = sleep
        self.tasks = TaskBag()
        starts.on_doubt = self._look_into

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        """Let a start wait for updates, and an update for a start."""
        try:
            ref: str = call.body.read().container_id
        except UnreadableMessageError:
            return await proceed()
        known = self._store.container(ref)
        container_id = ref if known is None else known.id
        if call.method.name == "StartContainer":
            return await self._start(call, proceed, container_id)
        if self._starts.in_flight(container_id):
            await self._within(call, _START, self._starts.wait_for_start(container_id))
        with self._starts.updating(container_id):
            return await proceed()

    async def _start(self, call: Call, proceed: Proceed, container_id: str) -> Reply:
        starts = self._starts
        with starts.starting(container_id):
            if starts.is_updating(container_id):
                await self._within(call, _UPDATE, starts.wait_for_updates(container_id))
            starts.on_sent(container_id)
            try:
                reply = await proceed()
            except BaseException:
                starts.doubt(container_id)
                raise
            if has_unknown_outcome(reply):
                starts.doubt(container_id)
            elif not reply.code:
                starts.settle(container_id, runs=True)
            return reply

    async def _within(self, call: Call, most: float, end: Awaitable[None]) -> None:
        if call.deadline is not None:
            most = min(most, max(call.deadline - self._clock(), 0.0) / 2)
        with suppress(TimeoutError):
            async with asyncio.timeout(most):
                await end

    # -- starts with unknown outcome

    def _look_into(self, container_id: str) -> None:
        self.tasks.spawn(self._find_out(container_id), name=f"look whether {container_id} was started")

    async def _find_out(self, container_id: str) -> None:
        state: ContainerState | None = ContainerState.UNKNOWN
        pauses, unanswered = list(self._looks), 0
        try:
            while pauses and unanswered < _UNANSWERED and self._starts.in_doubt(container_id):
                await self._sleep(Backoff(pauses[0], _AWAY).delay(unanswered + 1))
                try:
                    state = await self._look(container_id)
                except RpcError:
                    unanswered += 1
                    continue
                if state is None or state in _BEGUN:
                    break
                del pauses[0]
                unanswered = 0
        finally:
            self._starts.settle(container_id, runs=state is ContainerState.RUNNING)

    async def _look(self, container_id: str) -> ContainerState | None:
        """The state of a container; None if it or its pod is not there, RpcError if the runtime does not tell."""
        mark = self._store.mark()
        try:
            if container_id in self._store.containers:
                await self._sync.refresh(container_id)
            else:
                await self._sync.container(container_id)
        except RpcError as error:
            if error.code is Code.NOT_FOUND:
                return None
            raise
        container = self._store.containers.get(container_id)
        if container is not None and self._store.unchanged_since(container_id, mark):
            raise RpcError(Code.UNAVAILABLE, f"nothing new is known of {container_id}")
        return None if container is None else container.state
