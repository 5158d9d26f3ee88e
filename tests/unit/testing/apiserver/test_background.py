"""The API server in a thread: nothing of it is left when its block ends, whatever its clients are doing."""

import gc
import socket
import ssl
import warnings
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from interpose.testing.apiserver.background import Running, background
from interpose.testing.apiserver.server import ApiServer
from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.lab.processes import wait_for


def _connected(running: Running) -> socket.socket:
    return socket.create_connection(running.do(lambda server: (server.host, server.port)), WAIT_LIMIT)


def no_greeting(running: Running) -> socket.socket:
    """A client that connects and never begins with TLS."""
    return _connected(running)


def no_goodbye(running: Running) -> socket.socket:
    """A client that has its last answer, and does not say that it has seen the end of the connection."""
    context = ssl.create_default_context(cadata=running.do(lambda server: server.ca))
    client = context.wrap_socket(_connected(running), server_hostname="localhost")
    client.sendall(b"GET /version HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    wait_for(lambda: running.do(lambda server: len(server.requests)), what="the request")
    client.recv(1)
    return client


@pytest.mark.parametrize("client", [no_greeting, no_goodbye])
def test_no_transport_stays_open(client: Callable[[Running], socket.socket]) -> None:
    """Neither one that is being opened nor one that is being closed."""
    with warnings.catch_warnings(record=True) as caught, ExitStack() as stack:
        warnings.simplefilter("always", ResourceWarning)
        with background(ApiServer(tls=True)) as running:
            stack.enter_context(client(running))
            running.do(lambda _server: None)
        gc.collect()
    assert [str(one.message) for one in caught] == []
