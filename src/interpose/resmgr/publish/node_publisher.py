"""What the policy of a relay publishes through the agent of the node: capacity, label and taint follow the tracker.

The tracker is polled once a second: whichever way a configuration came in force, the marks follow it. On the way out
nothing is taken back; the next relay finds what is there and goes on with it.
"""

import logging
from collections.abc import Iterable
from typing import Final

from interpose.config.relay.settings import PolicySettings
from interpose.core.topology.topology import Topology
from interpose.metrics import Family
from interpose.net.grpc.transport import Hub
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.metrics import publishing_collector
from interpose.resmgr.publish.agent_client import AgentClient
from interpose.resmgr.publish.node_state import NodeMarks, desired_marks
from interpose.resmgr.publish.publisher import Publisher
from interpose.resmgr.tracker import AllocationTracker
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

# Ticks for which nothing is taken back if the configuration may come from the cluster and has not come yet: a node that
# lost its state would be without its exclusive cores for a moment, and pods would be turned away.
_GRACE_TICKS: Final = 60


class NodePublisher:
    """Publishes marks of the policy; without an agent socket it only reports what is not published."""

    def __init__(self, settings: PolicySettings, hub: Hub) -> None:
        self._tasks = TaskBag()
        self._client: AgentClient | None = None
        self._publisher: Publisher | None = None
        if settings.agent_socket != "none":
            self._client = AgentClient(settings.agent_socket, hub=hub)
            self._publisher = Publisher(self._client)
        self._applied: tuple[Configuration, Topology] | None = None
        self._desired: NodeMarks | None = None
        self._started = False
        self._first: Configuration | None = None  # the one we started with
        self._grace_ticks = _GRACE_TICKS if settings.config_socket != "none" else 0
        self._logged_note = ""

    def start(self, tracker: AllocationTracker) -> None:
        """Begin to publish what the policy of this tracker wants."""
        self._started = True
        self._follow(tracker)
        if self._client is not None and self._publisher is not None:
            self._client.start(self._publisher.wake)
            self._tasks.spawn(self._publisher.run(), name="publish what the policy wants of the node")

    def tick(self, tracker: AllocationTracker) -> None:
        """Follow the configuration; to be called once a second."""
        if not self._started:
            return
        self._grace_ticks = max(self._grace_ticks - 1, 0)
        # While everything changes it is not known yet whether it will stay so.
        if not tracker.reconfiguring:
            self._follow(tracker)
        if self._client is not None:
            self._client.tick()

    def _follow(self, tracker: AllocationTracker) -> None:
        now = (tracker.configuration, tracker.topology)
        if self._first is None:
            self._first = now[0]
        elif now[0] is not self._first:
            self._grace_ticks = 0  # it has come
        if self._applied is not None and now[0] is self._applied[0] and now[1] is self._applied[1]:
            return
        desired = desired_marks(tracker.configuration, tracker.topology.online)
        if not desired and self._grace_ticks:
            return
        self._applied, self._desired = now, desired
        if self._publisher is not None:
            self._publisher.set_desired(self._desired)
        elif (note := self._note()) and note != self._logged_note:
            _log.warning(
                "No agent socket configured, node labels and capacity of the policy are not published",
                extra={"kv": {"what": note}},
            )
        self._logged_note = self._note()

    def _note(self) -> str:
        if self._publisher is not None or not self._desired:
            return ""
        return f"{self._desired} is not published: policy.agent_socket is none"

    def problems(self) -> list[str]:
        """Problems and notes for the operator."""
        if note := self._note():
            return [f"note: {note}"]
        if self._publisher is None or not self._desired or not self._publisher.problem:
            return []
        return [f"{self._desired} could not be published: {self._publisher.problem}"]

    def collect(self) -> Iterable[Family]:
        """Metrics; none without an agent."""
        return () if self._publisher is None else publishing_collector(self._publisher)()

    async def close(self) -> None:
        """Stop, and leave the node as it is. A successor publishes from now on."""
        self._started = False
        await self._tasks.cancel()
        if self._client is not None:
            await self._client.close()
