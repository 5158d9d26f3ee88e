"""The API server in a thread: nothing of it is left when its block ends, whatever its clients are doing."""

import gc
import socket
import ssl
import warnings
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.apiserver.background import Running, background
from tests.support.apiserver.server import ApiServer


def _connected(running: Running) -> socket.socket:
    return socket.create_connection(running.do(lambda server: (server.host, server.port)), WAIT_LIMIT)


def no_greeting(running: Running) -> socket.socket:
    """A client that connects and never begins with TLS."""
    return _connected(running)


def no_goodbye(running: Running) -> socket.socket:
    """A client that has its last answer, and does not say that it has seen the end of the connection."""
    return _asked(running, b"Connection: close\r\n")


def cut_off(running: Running) -> socket.socket:
    """A client whose connection breaks while it waits for its next answer."""
    client = _asked(running)
    running.do(lambda server: server.faults.drop_connections())
    return client


def _asked(running: Running, headers: bytes = b"") -> socket.socket:
    context = ssl.create_default_context(cadata=running.do(lambda server: server.ca))
    client = context.wrap_socket(_connected(running), server_hostname="localhost")
    client.sendall(b"GET /version HTTP/1.1\r\nHost: a\r\n" + headers + b"\r\n")
    assert client.recv(1)
    return client


@pytest.mark.parametrize("client", [no_greeting, no_goodbye, cut_off])
def test_no_transport_stays_open(client: Callable[[Running], socket.socket], caplog: pytest.LogCaptureFixture) -> None:
    """Neither one that is being opened nor one that is being closed."""
    with warnings.catch_warnings(record=True) as caught, ExitStack() as stack:
        warnings.simplefilter("always", ResourceWarning)
        with background(ApiServer(tls=True)) as running:
            stack.enter_context(client(running))
            running.do(lambda _server: None)
        gc.collect()
    assert [str(one.message) for one in caught] == []
    assert caplog.text == ""
