"""A node whose books are kept, for the tests of who keeps them."""

from collections.abc import AsyncIterator

import pytest

from tests.support.policy.manager_caller import ManagerCaller
from tests.support.policy.node import PolicyNode, running


@pytest.fixture
async def node() -> AsyncIterator[PolicyNode]:
    """Packages 0-7 and 8-15, cores of two neighbours; CPU 0 is reserved. One container shares."""
    async with running(("web", 100, "burstable")) as node:
        yield node


@pytest.fixture
async def bare() -> AsyncIterator[PolicyNode]:
    """The same machine. Nothing runs yet, and nobody has looked."""
    node = PolicyNode()
    yield node
    await node.close()


@pytest.fixture
def caller(node: PolicyNode) -> ManagerCaller:
    return ManagerCaller(node)
