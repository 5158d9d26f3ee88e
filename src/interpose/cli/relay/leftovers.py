"""A relay without any policy: what the policy of an earlier one has left on the Node object goes.

The agent is asked when it is there, and again until it was done; then there is nothing left to do and nobody is asked
any more. A relay that has a policy, or may get one, does not need this: there the marks follow the policy.
"""

from interpose.net.grpc.transport import Hub
from interpose.resmgr.publish.agent_client import AgentClient
from interpose.resmgr.publish.node_state import NodeMarks
from interpose.resmgr.publish.publisher import Publisher
from interpose.tasks import TaskBag


class Leftovers:
    """`done` once the node shows nothing of ours. Calls nobody before `start`."""

    def __init__(self, path: str, hub: Hub) -> None:
        """`path` is the socket of the agent."""
        self.done = False
        self._tasks = TaskBag()
        self._client = AgentClient(path, hub=hub)
        self._publisher = Publisher(self._client)

    def start(self) -> None:
        """Begin, as soon as there is an agent."""
        self._client.start(self._agent_is_there)
        self._tasks.spawn(self._publisher.run(), name="take back what an earlier policy has published")

    def _agent_is_there(self) -> None:
        self._publisher.set_desired(NodeMarks())
        self._publisher.wake()

    def tick(self) -> None:
        """A second has passed."""
        if self.done:
            return
        self._client.tick()
        if self._publisher.published:
            self.done = True
            self._tasks.spawn(self._client.close(), name="leave the agent")

    async def close(self) -> None:
        """Stop, whatever is left. A successor decides from now on, or nobody."""
        self.done = True
        await self._tasks.cancel()
        await self._client.close()
