"""The docker command through the relay and straight to a real dockerd: nobody can tell them apart.

A hook server with failure policy Fail is registered and down all the time: containers that are not Kubernetes' are
none of its business. Every docker command in the search path is tried, for they speak to dockerd in different ways.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interpose.testing.hookserver import register
from tests.support.lab.docker.cli import DockerCli, Done, Parity, programs
from tests.support.lab.images import TEST_IMAGE
from tests.support.lab.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.lab.docker.dockerd import Dockerd
    from tests.support.lab.relay import Relay

pytestmark = pytest.mark.e2e

MEBIBYTE = 1 << 20
HOST = ("--network", "host")
NAME = "byhand"
COUNT = "i=0; while [ $i -lt 3 ]; do echo line $i; i=$((i+1)); done; echo oops >&2"

# What runs on a terminal, what somebody types when they have read something, and what they see.
READS = ("sh", "-c", "echo ready; cat; exit 5")
TYPED = {"ready\r\n": "hello\n", "hello\r\nhello\r\n": "\x04"}
SHOWN = b"ready\r\nhello\r\nhello\r\n"


@pytest.fixture(scope="module", autouse=True)
def absent_plugin(docker_relay: Relay) -> Iterator[None]:
    """Nobody listens where it says, and nothing may pass it."""
    file = register(
        docker_relay.hooks_dir, "absent", docker_relay.socket.with_name("absent.sock"), failure_policy="Fail"
    )
    docker_relay.wait_hooks(absent="unreachable")
    yield
    file.unlink()
    docker_relay.wait_hooks(absent=None)


@pytest.fixture(params=programs(), ids=lambda path: path.strip("/").replace("/", "-"))
def docker(request: pytest.FixtureRequest, dockerd: Dockerd, docker_relay: Relay) -> Parity:
    """The same command on both sockets."""
    program = request.param
    return Parity(direct=DockerCli(dockerd.socket, program), proxied=DockerCli(docker_relay.socket, program))


def run(cli: DockerCli, *args: str, options: tuple[str, ...] = (), stdin: bytes = b"") -> Done:
    """`docker run` of the test image, removed at its end."""
    return cli.run("run", "--rm", *HOST, *options, TEST_IMAGE, *args, stdin=stdin)


@pytest.fixture
def sleeper(docker: Parity) -> Iterator[str]:
    """A container that runs, made through the relay."""
    made = docker.proxied.run("run", "-d", "--name", NAME, *HOST, TEST_IMAGE)
    assert made.code == 0, made
    yield NAME
    docker.direct.run("rm", "-f", NAME)


# -- about dockerd


@pytest.mark.parametrize("command", ["version", "ps", "system df", "network ls", "volume ls", "image ls -q"])
def test_what_dockerd_says_of_itself(docker: Parity, command: str) -> None:
    """Answers with and without a length."""
    assert docker.same(*command.split()).code == 0


def test_info(docker: Parity) -> None:
    """The words of a line come in any order: runtimes, for one."""

    def info(cli: DockerCli) -> Done:
        done = cli.run("info")
        lines = [b" ".join(sorted(line.split())) for line in done.out.splitlines()]
        return Done(code=done.code, out=b"\n".join(lines), err=done.err)

    done = docker.equal(info)
    assert done.code == 0
    assert b"Driver: Storage vfs" in done.out


def test_errors_are_dockerds(docker: Parity) -> None:
    """Exit codes and texts."""
    for command in ("inspect nobody", "start nobody", "rm nobody", "run --network host localhost/nothing:1"):
        done = docker.same(*command.split())
        assert done.code != 0
        assert b"o such" in done.err or b"Unable to find" in done.err


# -- running


def test_run(docker: Parity) -> None:
    """Both outputs and the exit code of a container."""
    done = docker.equal(lambda cli: run(cli, "sh", "-c", f"{COUNT}; exit 7"))
    assert (done.code, done.out, done.err) == (7, b"line 0\nline 1\nline 2\n", b"oops\n")


@pytest.mark.parametrize("size", [0, 6, 5 * MEBIBYTE])
def test_run_with_piped_input(docker: Parity, size: int) -> None:
    """All of it comes back, and its end ends the container: half a connection is closed."""
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    done = docker.equal(lambda cli: run(cli, "cat", options=("-i",), stdin=data))
    assert (done.code, done.err) == (0, b"")
    assert hashlib.sha256(done.out).digest() == hashlib.sha256(data).digest()


def test_much_output(docker: Parity) -> None:
    """20 MB in one stream. Not into a log file as well: dockerd loses some of it when that is slow."""
    count = 20 * MEBIBYTE
    options = ("--log-driver", "none")
    done = docker.equal(lambda cli: run(cli, "head", "-c", str(count), "/dev/zero", options=options))
    assert (done.code, len(done.out)) == (0, count)


def test_run_on_a_terminal(docker: Parity) -> None:
    """Somebody types a line, sees it, and says that it was the last one."""
    args = ("run", "--rm", "-it", *HOST, TEST_IMAGE, *READS)
    done = docker.equal(lambda cli: cli.on_terminal(*args, types=TYPED))
    assert (done.code, done.out) == (5, SHOWN)


def test_attach(docker: Parity) -> None:
    """A container made first and attached to later; input and output go on."""

    def attached(cli: DockerCli) -> Done:
        made = cli.run("create", "-i", "--name", NAME, *HOST, TEST_IMAGE, "cat")
        try:
            assert made.code == 0, made
            with cli.open("start", "-ai", NAME) as talking:
                talking.type(b"first\n")
                assert talking.until(b"first\n")
                talking.type(b"second\n")
                talking.until(b"second\n")
                talking.close_input()
                return talking.end()
        finally:
            cli.run("rm", "-f", NAME)

    done = docker.equal(attached)
    assert (done.code, done.out) == (0, b"first\nsecond\n")


# -- inside of a container


def test_exec(docker: Parity, sleeper: str) -> None:
    """Both outputs, exit codes, and what cannot be run."""
    done = docker.same("exec", sleeper, "sh", "-c", f"{COUNT}; exit 3")
    assert (done.code, done.out, done.err) == (3, b"line 0\nline 1\nline 2\n", b"oops\n")
    assert docker.same("exec", sleeper, "nothing").code in (126, 127)
    assert docker.same("exec", "-d", sleeper, "true").code == 0
    assert (
        docker.same("exec", "-e", "X=y", "-w", "/tmp", sleeper, "sh", "-c", "echo $X; ls -d $PWD").text == "y\n/tmp\n"
    )


@pytest.mark.parametrize("size", [5, 5 * MEBIBYTE])
def test_exec_with_piped_input(docker: Parity, sleeper: str, size: int) -> None:
    """It comes back whole, and its end is seen inside."""
    data = bytes(range(256)) * (size // 256) + b"y" * (size % 256)
    done = docker.same("exec", "-i", sleeper, "cat", stdin=data)
    assert (done.code, len(done.out)) == (0, size)
    assert done.out == data
    assert docker.same("exec", "-i", sleeper, "wc", "-c", stdin=data).text.strip() == str(size)


def test_exec_on_a_terminal(docker: Parity, sleeper: str) -> None:
    """The same in a container that runs."""
    done = docker.equal(lambda cli: cli.on_terminal("exec", "-it", sleeper, *READS, types=TYPED))
    assert (done.code, done.out) == (5, SHOWN)


# -- streams


def test_logs(docker: Parity) -> None:
    """What was said, and what is being said."""
    script = f"{COUNT}; while [ ! -e /go ]; do sleep 0.05; done; echo last"
    made = docker.proxied.run("run", "-d", "--name", NAME, *HOST, TEST_IMAGE, "sh", "-c", script)
    try:
        assert made.code == 0, made
        wait_for(lambda: b"oops" in docker.direct.run("logs", NAME).err, what="the output")
        assert docker.same("logs", NAME).out == b"line 0\nline 1\nline 2\n"
        assert docker.same("logs", "--tail", "1", NAME).code == 0
        with docker.proxied.open("logs", "-f", NAME) as following:
            following.until(b"line 2\n")
            assert b"last" not in following.until(b"oops\n")
            docker.direct.run("exec", NAME, "mkdir", "/go")
            done = following.end()
        assert (done.code, done.out.count(b"last\n")) == (0, 1)
    finally:
        docker.direct.run("rm", "-f", NAME)


def test_events_come_at_once(docker: Parity) -> None:
    """A line comes while nothing else does; the first may be older than the question."""
    began, name = str(int(time.time())), f"{NAME}-{time.time_ns()}"
    with docker.proxied.open("events", "--since", began, "--filter", f"container={name}") as events:
        try:
            docker.direct.run("run", "-d", "--name", name, *HOST, TEST_IMAGE)
            assert b" container destroy " not in events.until(b" container start ")
        finally:
            docker.direct.run("rm", "-f", name)
        events.until(b" container destroy ")


def test_stats_and_top(docker: Parity, sleeper: str) -> None:
    """A stream that ends by itself, and one that somebody ends."""
    names = docker.same("stats", "--no-stream", "--format", "{{.Name}} {{.PIDs}}", sleeper)
    assert (names.code, names.text) == (0, f"{sleeper} 1\n")
    assert "sleep" in docker.same("top", sleeper).text
    with docker.proxied.open("stats", "--format", "{{.Name}}", sleeper) as following:
        following.until(sleeper.encode())


def test_wait(docker: Parity, sleeper: str) -> None:
    """Its answer has a head long before a body."""
    with docker.proxied.open("wait", sleeper) as waiting:
        docker.direct.run("kill", "-s", "KILL", sleeper)
        done = waiting.end()
    assert (done.code, done.out) == (0, b"137\n")
    assert docker.same("wait", sleeper).text == "137\n"


# -- the life of a container


def test_a_whole_life(docker: Parity) -> None:
    """Made, started, changed, renamed, stopped, started again, killed, removed: the same words at each step."""
    steps = (
        ("create", "--name", NAME, *HOST, "--cpu-shares", "300", "-l", "a=b", "-e", "X=1", TEST_IMAGE),
        ("start", NAME),
        ("update", "--cpu-shares", "400", NAME),
        ("inspect", "-f", "{{.HostConfig.CpuShares}} {{.Config.Labels.a}} {{.Config.Env}} {{.State.Status}}", NAME),
        ("rename", NAME, f"{NAME}2"),
        ("pause", f"{NAME}2"),
        ("unpause", f"{NAME}2"),
        ("restart", "-t", "0", f"{NAME}2"),
        ("stop", "-t", "0", f"{NAME}2"),
        ("start", f"{NAME}2"),
        ("kill", f"{NAME}2"),
        ("ps", "-a", "--format", "{{.Names}} {{.State}}"),
        ("rm", f"{NAME}2"),
        ("inspect", f"{NAME}2"),
    )

    def live(cli: DockerCli) -> Done:
        try:
            done = [cli.run(*step) for step in steps]
        finally:
            cli.run("rm", "-f", NAME, f"{NAME}2")
        return Done(
            code=sum(one.code for one in done),
            out=b"\n".join(one.out for one in done),
            err=b"\n".join(one.err for one in done),
        )

    done = docker.equal(live)
    assert b"400 b [X=1 PATH=/bin] running" in done.out
    assert f"{NAME}2 exited".encode() in done.out
    assert done.code == 1  # the last step


def test_inspect_is_byte_for_byte(docker: Parity, sleeper: str) -> None:
    """The same container seen twice."""
    done = docker.same("inspect", sleeper)
    assert docker.direct.run("inspect", sleeper).out == done.out
    assert json.loads(done.out)[0]["Name"] == f"/{sleeper}"


# -- files and images


def test_copying_files(docker: Parity, sleeper: str, scratch: Path) -> None:
    """Archives in both directions."""
    content = bytes(range(256)) * 4 * 4096  # 4 MiB
    (scratch / "in").write_bytes(content)
    for cli in (docker.direct, docker.proxied):
        assert cli.run("cp", str(scratch / "in"), f"{sleeper}:/tmp/file").code == 0
        assert cli.run("cp", f"{sleeper}:/tmp/file", str(scratch / "out")).code == 0
        assert (scratch / "out").read_bytes() == content
        (scratch / "out").unlink()
    piped = docker.same("cp", f"{sleeper}:/tmp/file", "-")
    with tarfile.open(fileobj=io.BytesIO(piped.out)) as tar:
        file = tar.extractfile("file")
        assert file is not None
        assert file.read() == content
    assert docker.same("cp", f"{sleeper}:/nothing", "-").code == 1
    assert "A /tmp/file" in docker.same("diff", sleeper).text


def test_saving_and_loading(docker: Parity, scratch: Path) -> None:
    """An image of some megabytes: the archive is the same, and what is loaded has the same id."""
    saved = {}
    for cli in (docker.direct, docker.proxied):
        assert cli.run("save", "-o", str(scratch / "image.tar"), TEST_IMAGE).code == 0
        saved[cli] = hashlib.sha256((scratch / "image.tar").read_bytes()).hexdigest()
    assert len(set(saved.values())) == 1
    size = (scratch / "image.tar").stat().st_size
    assert size > MEBIBYTE
    piped = docker.equal(lambda cli: cli.run("save", TEST_IMAGE))
    assert len(piped.out) == size
    loaded = docker.same("load", "-i", str(scratch / "image.tar"))
    assert (loaded.code, loaded.text) == (0, f"Loaded image: {TEST_IMAGE}\n")
    assert docker.same("load", stdin=piped.out).code == 0
    assert docker.same("load", stdin=b"this is no archive").code == 1


@pytest.mark.parametrize("buildkit", ["0", "1"])
def test_building(docker: Parity, scratch: Path, buildkit: str) -> None:
    """The classic builder sends the folder; BuildKit turns a connection into HTTP/2 in both directions."""
    (scratch / "context").mkdir()
    (scratch / "context" / "Dockerfile").write_text(f"FROM {TEST_IMAGE}\nCOPY file /file\nRUN true\n")
    (scratch / "context" / "file").write_bytes(b"z" * MEBIBYTE)
    args = ("build", "--network", "host", "--no-cache", "-q", "-t", "localhost/built:1", str(scratch / "context"))

    def build(cli: DockerCli) -> Done:
        done = cli.run(*args, env={"DOCKER_BUILDKIT": buildkit})
        cli.run("rmi", "localhost/built:1")
        # Each build has an id of its own, and the older builder tells that it is old.
        return Done(code=done.code, out=re.sub(rb"[0-9a-f]{64}", b"", done.out), err=b"")

    if b"buildx component is missing" in docker.direct.run(*args, env={"DOCKER_BUILDKIT": buildkit}).err:
        pytest.skip(f"{docker.direct.program} has no BuildKit client here")
    done = docker.equal(build)
    assert (done.code, done.out) == (0, b"sha256:\n")
