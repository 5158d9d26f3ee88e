"""What the tests of the runtime service share: a world in memory, and a client of a runtime in it."""

from collections.abc import AsyncIterator

import pytest

from tests.support.node.local_client import LocalClient
from tests.support.node.local_parts import LocalWorld, Process


@pytest.fixture
def world() -> LocalWorld:
    """An empty node."""
    return LocalWorld()


@pytest.fixture
async def client(world: LocalWorld) -> AsyncIterator[LocalClient]:
    """A client of a runtime that just started."""
    runtime = Process(world).runtime()
    await runtime.start()
    yield LocalClient(runtime)
    await runtime.close()
