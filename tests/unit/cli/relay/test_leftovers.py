"""What an earlier policy has left on the node goes with a relay that has none."""

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interpose.cli.relay.leftovers import Leftovers
from interpose.host.unix_sockets import bind_unix
from interpose.kube.agent.node_service import AgentSocket, NodeService
from interpose.net.grpc.transport import Hub
from interpose.resmgr.publish.node_state import ANNOTATION, CORES, TAINT
from interpose.testing.eventually import eventually
from tests.support.kube.node_api import NodeApi, plain_node

LABEL = "cmk.intel.com/cmk-node"
OTHERS = {"key": "example.com/gpu", "effect": "NoExecute"}
NOTE = '{"capacities":{"cmk.intel.com/exclusive-cores":4},"taints":["cmk=true:NoSchedule"]}'


@pytest.fixture
def path() -> Iterator[Path]:
    """Short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="ip-") as folder:
        yield Path(folder) / "a.sock"


@pytest.fixture
async def api() -> NodeApi:
    """With a node that was marked, by us and by others."""
    node = plain_node()
    node["metadata"]["annotations"][ANNOTATION] = NOTE
    node["metadata"]["labels"][LABEL] = "true"
    node["spec"]["taints"] = [TAINT._asdict(), OTHERS]
    node["status"]["capacity"][CORES] = "4"
    return NodeApi(node)


@asynccontextmanager
async def agent(path: Path, api: NodeApi) -> AsyncIterator[NodeService]:
    """It serves."""
    service = NodeService(api, "n1", str)
    served = AgentSocket(bind_unix(str(path), mode=0o600), service)
    await served.start()
    try:
        yield service
    finally:
        await served.close()


@pytest.fixture
async def leftovers(path: Path) -> AsyncIterator[Leftovers]:
    """Begun."""
    made = Leftovers(str(path), Hub())
    made.start()
    yield made
    await made.close()


async def ticked(leftovers: Leftovers) -> None:
    """Tick until it is done."""

    def done() -> bool:
        leftovers.tick()
        return leftovers.done

    await eventually(done, "the end of it")


async def test_what_is_noted_as_ours_goes(path: Path, api: NodeApi, leftovers: Leftovers) -> None:
    """And nothing else: the label was somebody else's, as the note does not have it."""
    async with agent(path, api):
        await ticked(leftovers)
    assert api.node["status"]["capacity"][CORES] == "0"
    assert api.node["spec"]["taints"] == [OTHERS]
    assert ANNOTATION not in api.node["metadata"]["annotations"]
    assert api.node["metadata"]["labels"][LABEL] == "true"


async def test_a_node_without_marks_is_looked_at_once(path: Path, leftovers: Leftovers) -> None:
    """Then the agent is left alone, and the connection to it is closed."""
    api = NodeApi()
    async with agent(path, api) as service:
        await ticked(leftovers)
        await eventually(lambda: not leftovers._client.up, "the connection to end")
        leftovers.tick()
        await asyncio.sleep(0)
        assert not leftovers._client.up
        assert service.calls == {("GetNode", "OK"): 1}
    assert api.patches == []


async def test_an_agent_that_comes_later_is_asked_then(
    path: Path, api: NodeApi, leftovers: Leftovers, caplog: pytest.LogCaptureFixture
) -> None:
    """Until then nobody misses it."""
    caplog.set_level(logging.INFO)
    await eventually(lambda: "No such file" in leftovers._client._upstream.last_error, "a dial")
    leftovers.tick()
    assert not leftovers.done
    assert caplog.text == ""
    async with agent(path, api):
        await ticked(leftovers)
    assert api.node["status"]["capacity"][CORES] == "0"
