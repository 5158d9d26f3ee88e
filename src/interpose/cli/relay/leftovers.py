"""A relay without any policy removes what the policy of an earlier relay has published on the Node object.

The agent is asked as soon as it answers, and again until it is done; then there is nothing left to do and no more calls
are made. A relay that has a policy, or may get one, does not need this: there the marks follow the policy.
"""

from interpose.net.grpc.transport import Hub
from interpose.resmgr.publish.agent_client import AgentClient
from interpose.resmgr.publish.node_state import NodeMarks
from interpose.resmgr.publish.publisher import Publisher
from interpose.tasks import TaskBag


class Leftovers:
    """Cleans up the Node object by calls to the agent: `done` once it shows nothing of ours."""

    def __init__(self, path: str, hub: Hub) -> None:
        """`path` is the socket of the agent."""
        self.done = False
        self._tasks = TaskBag()
        self._client = AgentClient(path, hub=hub)
        self._publisher = Publisher(self._client)

    def start(self) -> None:
        """Connect to the agent, and clean up as soon as it answers."""
        self._client.start(self._on_agent)
        self._tasks.spawn(self._publisher.run(), name="take back what an earlier policy has published")

    def _on_agent(self) -> None:
        self._publisher.set_desired(NodeMarks())
        self._publisher.wake()

    def tick(self) -> None:
        """Called once a second."""
        if self.done:
            return
        self._client.tick()
        if self._publisher.published:
            self.done = True
            self._tasks.spawn(self._client.close(), name="leave the agent")

    async def close(self) -> None:
        """Stop, whatever is left: a successor decides from now on."""
        self.done = True
        await self._tasks.cancel()
        await self._client.close()
