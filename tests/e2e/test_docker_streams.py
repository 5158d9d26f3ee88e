"""Large, slow, endless and abandoned streams through the relay to a real dockerd: it holds nothing for long."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import socket
import tarfile
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.docker.dockershim import DockerClient
from tests.support.lab.docker.cli import DockerCli
from tests.support.lab.images import TEST_IMAGE, ImageSpec, archive
from tests.support.lab.processes import wait_for
from tests.support.lab.relay import DOCKER, Relay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.lab.docker.dockerd import Dockerd

pytestmark = pytest.mark.e2e

MEBIBYTE = 1 << 20
LARGE = 100 * MEBIBYTE
SPARE = 16 * MEBIBYTE  # what memory may grow by, whatever passes
HOST = ("--network", "host", "--log-driver", "none")


@pytest.fixture(scope="module")
def relay(dockerd: Dockerd) -> Iterator[Relay]:
    """A relay of these tests alone: its memory and its connections are counted."""
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    with Relay(folder, dockerd.socket, DOCKER) as running:
        DockerCli(running.socket).run("version")  # everything that is loaded on the first call
        yield running
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def cli(relay: Relay) -> DockerCli:
    """The docker command through the relay."""
    return DockerCli(relay.socket)


@contextlib.contextmanager
def constant_memory(relay: Relay) -> Iterator[None]:
    """The most it ever held inside of the block is not much more than before."""
    process = Path(f"/proc/{relay.child.pid}")
    (process / "clear_refs").write_text("5")  # the highest mark starts anew
    before = relay.child.rss_bytes()
    yield
    peak = int(re.findall(r"VmHWM:\s+(\d+) kB", (process / "status").read_text())[0]) * 1024
    assert peak - before < SPARE, f"{peak - before} bytes more"


def sockets(relay: Relay) -> int:
    """Open sockets of the relay."""
    count = 0
    for entry in Path(f"/proc/{relay.child.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            count += str(entry.readlink()).startswith("socket:")
    return count


@contextlib.contextmanager
def no_socket_left(relay: Relay) -> Iterator[None]:
    """As many as before, soon after the block; those for calls of its own come and go."""
    before = sockets(relay)
    yield
    wait_for(lambda: sockets(relay) <= before + 1, what=f"{before} sockets, not {sockets(relay)}")


@pytest.fixture
def flood(cli: DockerCli) -> Iterator[str]:
    """A container that writes for ever."""
    made = cli.run("run", "-d", *HOST, TEST_IMAGE, "yes", "x" * 1000)
    assert made.code == 0, made
    yield made.text.strip()
    cli.run("rm", "-f", made.text.strip())


def test_a_large_image_in(relay: Relay, cli: DockerCli, scratch: Path) -> None:
    """`docker load` of 100 MB."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar, Path("/dev/zero").open("rb") as zeros:
        entry = tarfile.TarInfo("zeros")
        entry.size = LARGE
        tar.addfile(entry, zeros)
    image = ImageSpec(reference="localhost/large:1", command=("/zeros",))
    (scratch / "large.tar").write_bytes(archive(image, layer.getvalue()))
    try:
        with constant_memory(relay), no_socket_left(relay):
            done = cli.run("load", "-i", str(scratch / "large.tar"))
        assert (done.code, done.text) == (0, "Loaded image: localhost/large:1\n")
    finally:
        cli.run("rmi", "localhost/large:1")


def test_much_output(relay: Relay, cli: DockerCli) -> None:
    """100 MB of a container's output."""
    with constant_memory(relay), no_socket_left(relay):
        done = cli.run("run", "--rm", *HOST, TEST_IMAGE, "head", "-c", str(LARGE), "/dev/zero")
        assert (done.code, len(done.out)) == (0, LARGE)


def test_somebody_who_does_not_read(relay: Relay, flood: str) -> None:
    """dockerd has to wait, the relay holds little; then they are gone, and so is the connection to dockerd."""
    with constant_memory(relay), no_socket_left(relay), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(WAIT_LIMIT)
        client.connect(str(relay.socket))
        client.sendall(
            f"POST /containers/{flood}/attach?stream=1&stdout=1 HTTP/1.1\r\nHost: d\r\n"
            "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n".encode()
        )
        assert client.recv(4096).startswith(b"HTTP/1.1 101 UPGRADED")
        with DockerClient(relay.socket) as other:  # the others are served meanwhile
            for _ in range(50):
                assert other.call("GET", "/containers/json").status == 200


def test_abandoned_followers(relay: Relay, cli: DockerCli, flood: str) -> None:
    """Whoever followed something endless and was killed leaves nothing behind."""
    with no_socket_left(relay):
        for args in (("events",), ("stats", flood), ("attach", "--no-stdin", flood), ("wait", flood)):
            with cli.open(*args) as following:
                if args[0] in ("stats", "attach"):
                    following.until(b"x" if args[0] == "attach" else b"CONTAINER")


def test_many_at_once(relay: Relay, cli: DockerCli) -> None:
    """Each gets back what it sent, and nothing of the others."""
    made = cli.run("run", "-d", *HOST, TEST_IMAGE).text.strip()

    def talk(number: int) -> bool:
        data = f"{number}-".encode() * 50_000
        return cli.run("exec", "-i", made, "cat", stdin=data).out == data

    try:
        with no_socket_left(relay), ThreadPoolExecutor(8) as pool:
            assert all(pool.map(talk, range(16)))
    finally:
        cli.run("rm", "-f", made)


def test_an_upgrade_of_the_relay(dockerd: Dockerd, scratch: Path) -> None:
    """With --take-over while clients call: none of them notices."""
    failures: list[str] = []
    over = threading.Event()
    with Relay(scratch, dockerd.socket, DOCKER) as relay:

        def call() -> None:
            while not over.is_set():
                try:
                    with DockerClient(relay.socket) as client:
                        client.call("GET", "/containers/json")
                except Exception as error:
                    failures.append(repr(error))

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            relay.take_over()
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert DockerCli(relay.socket).run("version").code == 0
    assert failures == []


def test_an_archive_out(relay: Relay, cli: DockerCli) -> None:
    """What a container has of files, 100 MB of them."""
    made = cli.run("run", "-d", *HOST, TEST_IMAGE, "sh", "-c", f"head -c {LARGE} /dev/zero > /f; mkdir /ok; sleep 1000")
    name = made.text.strip()
    try:
        wait_for(lambda: cli.run("exec", name, "ls", "-d", "/ok").code == 0, what="the file", every=0.2)
        with constant_memory(relay):
            done = cli.run("cp", f"{name}:/f", "-")
        with tarfile.open(fileobj=io.BytesIO(done.out)) as tar:
            assert tar.getmember("f").size == LARGE
    finally:
        cli.run("rm", "-f", name)
