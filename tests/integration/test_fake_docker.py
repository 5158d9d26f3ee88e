"""The fake Docker over its socket: bytes that a client sees, streams, and what goes wrong on demand."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interpose.testing.eventually import eventually
from interpose.testing.failpoints import When
from tests.support.docker.dockershim import DockerClient, DockerError, ShimContainer, ShimPod
from tests.support.docker.fake.containers import unframed
from tests.support.docker.fake.server import FakeDocker

CREATE = {"Image": "localhost/busybox:latest"}
UPGRADE = "Connection: Upgrade\r\nUpgrade: tcp\r\n"


@pytest.fixture
async def docker(scratch: Path) -> AsyncIterator[FakeDocker]:
    """Without containers."""
    async with FakeDocker(scratch / "docker.sock") as running:
        yield running


class Client:
    """A connection by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, method: str, target: str, document: Any = None, more: str = "") -> None:
        """A request."""
        body = b"" if document is None else json.dumps(document).encode()
        length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        self.writer.write(f"{method} {target} HTTP/1.1\r\nHost: d\r\n{length}{more}\r\n".encode() + body)

    async def head(self) -> str:
        """The head of the answer."""
        return (await self.reader.readuntil(b"\r\n\r\n")).decode()

    async def chunk(self) -> bytes:
        """One chunk; nothing is the last one."""
        size = int(await self.reader.readline(), 16)
        data = await self.reader.readexactly(size)
        await self.reader.readexactly(2)
        return data

    async def answer(self) -> tuple[str, bytes]:
        """A whole one."""
        head = await self.head()
        if length := re.search(r"Content-Length: (\d+)", head):
            return head, await self.reader.readexactly(int(length[1]))
        body = b""
        while "chunked" in head and (piece := await self.chunk()):
            body += piece
        return head, body

    async def ask(self, method: str, target: str, document: Any = None, more: str = "") -> tuple[str, bytes]:
        """A request and its answer."""
        self.send(method, target, document, more)
        return await self.answer()


@pytest.fixture
async def client(docker: FakeDocker) -> AsyncIterator[Client]:
    """One connection."""
    made = Client(*await asyncio.open_unix_connection(str(docker.path)))
    yield made
    made.writer.close()


@pytest.fixture
async def other(docker: FakeDocker) -> AsyncIterator[Client]:
    """Another one."""
    made = Client(*await asyncio.open_unix_connection(str(docker.path)))
    yield made
    made.writer.close()


async def create(client: Client, name: str = "web", **more: Any) -> str:
    """A container; its id."""
    head, body = await client.ask("POST", f"/v1.41/containers/create?name={name}", {**CREATE, **more})
    assert head.startswith("HTTP/1.1 201 Created\r\n")
    return str(json.loads(body)["Id"])


# -- bytes


async def test_heads_are_those_of_dockerd(client: Client) -> None:
    """Order of headers, lengths up to 2 KiB, chunks above, no body for HEAD and 304."""
    head, body = await client.ask("GET", "/_ping")
    assert re.sub(r"Date: .* GMT", "Date: x", head) == (
        "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nCache-Control: no-cache, no-store, must-revalidate\r\n"
        "Docker-Experimental: false\r\nOstype: linux\r\nPragma: no-cache\r\nServer: Docker/20.10.24+dfsg1 (linux)\r\n"
        "Date: x\r\nContent-Length: 2\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"
    )
    assert body == b"OK"
    client.send("HEAD", "/_ping")
    assert "Content-Length: 0\r\n" in await client.head()
    assert "Transfer-Encoding: chunked\r\n" in (await client.ask("GET", "/info"))[0]
    await create(client)
    for status in (204, 304):
        client.send("POST", "/containers/web/start")
        head = await client.head()
        assert head.startswith(f"HTTP/1.1 {status} ")
        assert "Content-" not in head


async def test_errors(client: Client) -> None:
    """Documents with a message; an unknown page lacks Docker's headers."""
    head, body = await client.ask("GET", "/containers/nope/json")
    assert head.startswith("HTTP/1.1 404 Not Found\r\nApi-Version")
    assert body == b'{"message":"No such container: nope"}\n'
    head, body = await client.ask("GET", "/nope")
    assert "Api-Version" not in head
    assert body == b'{"message":"page not found"}\n'
    assert b"too new" in (await client.ask("GET", "/v1.99/version"))[1]
    assert b"too old" in (await client.ask("GET", "/v1.11/version"))[1]


async def test_pipelined_requests_are_answered_in_order(client: Client, docker: FakeDocker) -> None:
    """On one connection; the journal has all of them."""
    client.send("GET", "/_ping")
    client.send("GET", "/version")
    client.send("GET", "/_ping", more="Connection: close\r\n")
    assert [(await client.answer())[1][:2] for _ in range(3)] == [b"OK", b'{"', b"OK"]
    assert await client.reader.read() == b""
    assert [(noted.kind, noted.connection, noted.status) for noted in docker.journal] == [
        *(("ping", 1, 200), ("version", 1, 200), ("ping", 1, 200)),
    ]


async def test_bodies_are_noted_as_they_came(client: Client, docker: FakeDocker) -> None:
    """In chunks or not, asked for or not; those of images are only counted."""
    client.writer.write(
        b"POST /containers/create?name=aa HTTP/1.1\r\nHost: d\r\nExpect: 100-continue\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    assert await client.head() == "HTTP/1.1 100 Continue\r\n\r\n"
    body = b'{ "Image" : "localhost/busybox" }'
    client.writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    assert (await client.answer())[0].startswith("HTTP/1.1 201 ")
    assert docker.calls("create")[0].body == docker.container("aa").body == body
    client.writer.write(b"POST /images/load HTTP/1.1\r\nHost: d\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000)
    assert b"Loaded image" in (await client.answer())[1]
    assert (docker.api.loaded.bytes, docker.calls("load")[0].body) == (100_000, b"")


async def test_a_withheld_body_is_never_asked_for_after_the_answer(client: Client) -> None:
    """The connection ends instead."""
    client.send("POST", "/containers/nope/start", more="Expect: 100-continue\r\nContent-Length: 2\r\n")
    head, _ = await client.answer()
    assert head.startswith("HTTP/1.1 404 ")
    assert "Connection: close" in head
    assert await client.reader.read() == b""


# -- state


async def test_lists_and_filters(client: Client) -> None:
    """Running ones, all, and those that fit."""
    first, second = await create(client, "one", Labels={"a": "b"}), await create(client, "two")
    await client.ask("POST", f"/containers/{second[:12]}/start")

    async def ids(query: str) -> list[str]:
        return [row["Id"] for row in json.loads((await client.ask("GET", f"/containers/json?{query}"))[1])]

    assert await ids("") == [second]
    assert await ids("all=1") == [second, first]
    assert await ids('all=1&filters={"label":["a=b"]}') == [first]
    assert await ids('filters={"status":["created"]}') == [first]


# -- streams


async def test_events_come_at_once_and_end_with_the_client(client: Client, other: Client) -> None:
    """Filtered; a client that is done talking gets the end."""
    client.send("GET", '/events?filters={"type":["container"],"event":["start"],"label":["a"]}')
    assert "chunked" in await client.head()
    await create(other, "aa", Labels={"a": "b"})
    await create(other, "bb")
    for name in ("bb", "aa"):
        await other.ask("POST", f"/containers/{name}/start")
    assert json.loads(await client.chunk())["Actor"]["Attributes"]["name"] == "aa"
    client.writer.write_eof()
    assert await client.reader.read() == b"0\r\n\r\n"


async def test_following_logs(client: Client, other: Client, docker: FakeDocker) -> None:
    """What was said, what is being said, and the end of the process."""
    await create(other)
    await other.ask("POST", "/containers/web/start")
    docker.engine.write(docker.container("web"), b"early\n")
    client.send("GET", "/containers/web/logs?stdout=1&follow=1")
    await client.head()
    assert unframed(await client.chunk()) == [(1, b"early\n")]
    docker.engine.write(docker.container("web"), b"late\n")
    assert unframed(await client.chunk()) == [(1, b"late\n")]
    docker.engine.exited("web", 0)
    assert await client.chunk() == b""


async def test_waiting(client: Client, other: Client, docker: FakeDocker) -> None:
    """The head comes before the exit."""
    await create(other)
    await other.ask("POST", "/containers/web/start")
    client.send("POST", "/containers/web/wait")
    await client.head()
    docker.engine.exited("web", 3)
    assert json.loads(await client.chunk()) == {"Error": None, "StatusCode": 3}


@pytest.mark.parametrize(("more", "head"), [(UPGRADE, "HTTP/1.1 101 UPGRADED"), ("", "HTTP/1.1 200 OK")])
async def test_attach(client: Client, other: Client, docker: FakeDocker, more: str, head: str) -> None:
    """Bytes in both directions; the end of the input ends the process, and its end the connection."""
    await create(other, Cmd=["cat"], OpenStdin=True, StdinOnce=True)
    client.send("POST", "/containers/web/attach?stream=1&stdin=1&stdout=1", more=more)
    client.writer.write(b"early")  # before it runs, behind the head
    got = await client.head()
    assert got.startswith(f"{head}\r\nContent-Type: application/vnd.docker.raw-stream\r\n")
    await other.ask("POST", "/containers/web/start")
    assert await client.reader.readexactly(13) == b"\x01\0\0\0\0\0\0\x05early"
    client.writer.write_eof()
    assert await client.reader.read() == b""
    assert docker.container("web").exit_code == 0


@pytest.mark.parametrize("more", [UPGRADE, ""])
async def test_exec(client: Client, other: Client, more: str) -> None:
    """Input and output of a process inside, and its exit code."""
    await create(other)
    await other.ask("POST", "/containers/web/start")
    inside = {"Cmd": ["cat"], "AttachStdin": True, "AttachStdout": True, "Tty": True}
    ref = json.loads((await other.ask("POST", "/containers/web/exec", inside))[1])["Id"]
    client.send("POST", f"/exec/{ref}/start", {"Detach": False, "Tty": True}, more)
    assert "Api-Version" in await client.head()
    client.writer.write(b"hello")
    assert await client.reader.readexactly(5) == b"hello"
    client.writer.write_eof()
    assert await client.reader.read() == b""
    document = json.loads((await other.ask("GET", f"/exec/{ref}/json"))[1])
    assert (document["Running"], document["ExitCode"]) == (False, 0)
    assert (await other.ask("POST", f"/exec/{ref}/start", {"Detach": True}))[0].startswith("HTTP/1.1 409 ")


# -- what goes wrong


async def test_failures_and_broken_connections(client: Client, docker: FakeDocker) -> None:
    """An error without effect, an effect without an answer, half an answer, and anything at all."""
    docker.faults.fail("create", 500, "no space left on device")
    head, body = await client.ask("POST", "/containers/create", CREATE)
    assert (head[:12], body) == ("HTTP/1.1 500", b'{"message":"no space left on device"}\n')
    assert docker.containers == []
    docker.faults.drop("create", When.AFTER)
    client.send("POST", "/containers/create?name=made", CREATE)
    assert await client.reader.read() == b""
    assert docker.container("made").status == "created"


async def test_half_an_answer(client: Client, docker: FakeDocker) -> None:
    """A head that promises more than comes."""
    docker.faults.drop("version", "half")
    client.send("GET", "/version")
    head = await client.head()
    length = int(re.findall(r"Content-Length: (\d+)", head)[0])
    assert 0 < len(await client.reader.read()) < length


async def test_any_bytes(client: Client, docker: FakeDocker) -> None:
    """Of a server that is not dockerd."""
    docker.faults.answer_raw("version", b"HTTP/1.1 200 OK\r\nbad head")
    client.send("GET", "/version")
    assert await client.reader.read() == b"HTTP/1.1 200 OK\r\nbad head"


async def test_a_stall_holds_calls(client: Client, docker: FakeDocker) -> None:
    """Until it is released."""
    stall = docker.faults.stall("version")
    client.send("GET", "/version")
    await stall.entered.wait()
    assert docker.calls("version")[0].status == 0
    stall.release()
    assert (await client.head()).startswith("HTTP/1.1 200")


async def test_down_and_up_again(client: Client, docker: FakeDocker, scratch: Path) -> None:
    """Connections break, the socket goes and comes back, containers are what they were, or have ended."""
    await create(client)
    await client.ask("POST", "/containers/web/start")
    await docker.stop()
    assert await client.reader.read() == b""
    with pytest.raises(OSError):
        await asyncio.open_unix_connection(str(docker.path))
    docker.engine.crash()
    await docker.start()
    assert docker.container("web").status == "exited"
    docker.faults.refusing = True
    refused = Client(*await asyncio.open_unix_connection(str(docker.path)))
    assert await refused.reader.read() == b""
    refused.writer.close()
    await eventually(lambda: docker.connections == 0, "connections to be gone")


# -- a dockershim


async def test_a_pod_as_a_dockershim_makes_it(docker: FakeDocker) -> None:
    """Names, labels, namespaces of the sandbox; everything is gone at the end."""

    def live() -> None:
        with DockerClient(docker.path) as client:
            pod = ShimPod(client, "web", cgroup_parent="/kubepods/pod1", uid="u1", annotations={"team": "blue"})
            pod.run()
            pod.main.envs["A"] = "1"
            pod.main.resources = {"Memory": 100 << 20}
            pod.create()
            pod.start()
            pod.update(CpuShares=300)
            host = pod.inspect()["HostConfig"]
            assert (host["CpuShares"], host["Memory"], host["MemorySwap"]) == (300, 100 << 20, 100 << 20)
            assert host["NetworkMode"] == f"container:{pod.sandbox_id}"
            labels = pod.inspect_sandbox()["Config"]["Labels"]
            assert (labels["annotation.team"], labels["io.kubernetes.docker.type"]) == ("blue", "podsandbox")
            pod.create(ShimContainer(name="side", attempt=2))
            names = [row["Names"] for row in client.call("GET", "/containers/json", {"all": "1"}).document]
            assert names == [["/k8s_side_web_lab_u1_2"], ["/k8s_main_web_lab_u1_0"], ["/k8s_POD_web_lab_u1_0"]]
            pod.stop()
            pod.remove_container()
            pod.stop_sandbox()
            pod.remove_sandbox()
            with pytest.raises(DockerError, match="No such container") as refused:
                client.call("GET", "/containers/k8s_POD_web_lab_u1_0/json")
            assert refused.value.status == 404

    await asyncio.to_thread(live)
    assert docker.containers == []
    assert docker.accepted == 1
