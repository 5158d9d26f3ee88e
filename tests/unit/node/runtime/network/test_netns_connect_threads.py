"""Work in another network namespace. With a real one: tests/integration/test_cni.py."""

import threading

import pytest

from interpose.node.runtime.network.netns_connect import CLONE_NEWNET, enter, in_network


async def test_where_we_are() -> None:
    """No path is our own namespace, but a thread of its own."""
    assert await in_network("", threading.get_ident) != threading.get_ident()


async def test_errors_come_back() -> None:
    """With the path."""
    with pytest.raises(FileNotFoundError, match="no/such"):
        await in_network("/no/such", lambda: None)


def test_what_is_no_namespace() -> None:
    """The kernel's opinion, with the path."""
    with pytest.raises(OSError, match="/dev/null"):
        enter("/dev/null", CLONE_NEWNET)
