"""Pipes: a conversation through a socket. Those with TLS are tested on the product's loop, in tests/integration."""

import asyncio
import os
import socket

from interpose.net.httpd.transports import SocketPipe


async def test_a_unix_socket_knows_its_peer_and_can_be_half_closed() -> None:
    """And is the raw thing that descriptors can be passed through."""
    server, client = socket.socketpair()
    for sock in (server, client):
        sock.setblocking(False)
    pipe = SocketPipe(server)
    assert pipe.raw is server
    assert pipe.peer is not None
    assert (pipe.peer.pid, pipe.certified) == (os.getpid(), False)
    await pipe.send_all(b"hello")
    pipe.finish()
    loop = asyncio.get_running_loop()
    assert [await loop.sock_recv(client, 10), await loop.sock_recv(client, 10)] == [b"hello", b""]
    await loop.sock_sendall(client, b"still here")
    assert await pipe.recv(100) == b"still here"
    await pipe.close()
    assert server.fileno() == -1
    client.close()
