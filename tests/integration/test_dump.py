"""Dumps and recordings of a relay process: what is written, who writes it, and that no call ever waits for it."""

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cli.common.admin_client import ask
from interpose.cli.dump.attach import attach
from interpose.dump.model.frame_reader import FrameStream
from interpose.dump.model.frames import Begin, Dropped, End, Header, Message
from interpose.dump.recording.files import rotated_set
from interpose.dump.recording.reader import Recording
from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.grpcpeer import grpc_channel
from tests.support.lab.processes import Child, wait_for
from tests.support.lab.relay import Relay, program

RUNTIME = "/runtime.v1.RuntimeService/"
SECRET = "s3cr3t-value"
Admin = Callable[..., tuple[int, str]]


@pytest.fixture
def runtime(start_runtime: Callable[..., Child]) -> Child:
    """A runtime with some containers."""
    return start_runtime()


def status(relay: Relay) -> Any:
    """What the relay says of its dump."""
    return ask(str(relay.admin), "GET", "/v1/status")["dump"]


def scribe(relay: Relay) -> int:
    """The pid of its dump worker."""
    return int(wait_for(lambda: status(relay)["pid"], what="the dump worker to start"))


def pull(image: str, password: str) -> cri.PullImageRequest:
    """A pull with credentials."""
    return cri.PullImageRequest(image=cri.ImageSpec(image=image), auth=cri.AuthConfig(username="me", password=password))


async def call(relay: Path, method: str, request: Any, **more: Any) -> bytes | grpc.StatusCode:
    """One call; the code of a failed one."""
    path = method if "/" in method else RUNTIME + method
    async with grpc_channel(relay) as channel:
        try:
            reply: bytes = await channel.unary_unary(path)(
                request.SerializeToString(), wait_for_ready=True, timeout=WAIT_LIMIT, **more
            )
        except grpc.aio.AioRpcError as error:
            code: grpc.StatusCode = error.code()
            return code
        return reply


async def test_command_line_of_a_message_dumper(
    scratch: Path, runtime: Child, start_relay: Callable[..., Relay]
) -> None:
    """Everything that passes is in file and log, with latencies; credentials are not."""
    dump = scratch / "cri.dump"
    relay = start_relay("--no-hooks", "--dump", "reset,full:.*", "--dump-file", str(dump))
    await call(relay.socket, "Version", cri.VersionRequest(version="0.1.0"))
    await call(relay.socket, "Version", cri.VersionRequest(), metadata=(("x-token", SECRET),))
    await call(
        relay.socket, "/runtime.v1alpha2.RuntimeService/ContainerStatus", cri.ContainerStatusRequest(container_id="no")
    )
    await call(relay.socket, "/runtime.v1.ImageService/PullImage", pull("busybox:1.36", SECRET))
    assert await call(relay.socket, "/x.Y/Later", cri.VersionRequest(version="new")) is grpc.StatusCode.UNIMPLEMENTED
    assert relay.child.stop() == 0
    text = dump.read_text()
    lines = text.splitlines()
    assert lines[0].endswith("] (passthrough) REQUEST Version => version: 0.1.0")
    assert lines[1].startswith("[               +0.0")
    assert "] (passthrough) REPLY Version (" in lines[1]
    assert any("FAILED ContainerStatus" in line for line in lines)
    assert any("FAILED Later" in line for line in lines)
    assert "PullImage =>" in text
    assert SECRET not in text + relay.log.read_text()
    assert "message] (passthrough) REQUEST Version => version: 0.1.0" in relay.log.read_text()


async def test_recording_of_a_relay(scratch: Path, runtime: Child, start_relay: Callable[..., Relay]) -> None:
    """Every call, whatever the dump selects; the file has its index after a clean end, and nobody else may read it."""
    file = scratch / "a.crirec"
    relay = start_relay(
        "--no-hooks",
        "--record",
        str(file),
        "--dump",
        "reset,count:.*",
        "--no-dump-log",
        "--dump-file",
        str(scratch / "d"),
    )
    for _ in range(20):
        await call(relay.socket, "ListContainers", cri.ListContainersRequest())
    assert relay.child.stop() == 0
    recording = Recording(file)
    flows = list(recording.flows())
    assert [flow.name for flow in flows] == ["ListContainers"] * 20
    assert all(flow.end is not None and flow.end.code == 0 and flow.pid == os.getpid() for flow in flows)
    assert recording.damage == []
    assert file.stat().st_mode & 0o777 == 0o600
    assert recording.header.facts["listen"] == str(relay.socket)


async def test_recording_survives_the_relay(
    scratch: Path, runtime: Child, start_relay: Callable[..., Relay], admin: Admin
) -> None:
    """Killed outright: the dump worker has what was sent to it, writes it, and ends in order."""
    file = scratch / "a.crirec"
    relay = start_relay("--no-hooks", "--record", str(file))
    pid = scribe(relay)
    await call(relay.socket, "Version", cri.VersionRequest())
    name = 'interpose_dump_queue_bytes{reader="scribe"}'
    wait_for(lambda: _value(admin, name) == 0, what="an empty queue")
    relay.kill()
    wait_for(lambda: not Path(f"/proc/{pid}").exists() or _dead(pid), what="the dump worker to end")
    recording = Recording(file)
    assert [flow.name for flow in recording.flows()] == ["Version"]
    assert recording.damage == []


def _dead(pid: int) -> bool:
    """Whether it waits for somebody to ask how it ended: its parent is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _value(admin: Admin, name: str) -> float:
    """A metric of the relay."""
    found = [line.rpartition(" ")[2] for line in admin("/metrics")[1].splitlines() if line.startswith(name + " ")]
    return float(found[0])


async def test_scribe_that_hangs_holds_up_nothing(
    scratch: Path, runtime: Child, start_relay: Callable[..., Relay], admin: Admin
) -> None:
    """Calls pass at once; what does not fit is dropped and counted, and when it is back the dump says so."""
    dump = scratch / "dump"
    relay = start_relay(
        "--no-hooks", "--dump", "reset,full:.*", "--no-dump-log", "--dump-file", str(dump), "--dump-queue", "64KiB"
    )
    pid = scribe(relay)
    await call(relay.socket, "Version", cri.VersionRequest())
    os.kill(pid, signal.SIGSTOP)
    try:
        async with grpc_channel(relay.socket) as channel:
            for _ in range(300):
                assert await channel.unary_unary(RUNTIME + "ListContainers")(b"", timeout=WAIT_LIMIT)
        assert status(relay)["dropped"] > 0
        assert _value(admin, 'interpose_dump_bodies_dropped_total{reader="scribe"}') > 0
    finally:
        os.kill(pid, signal.SIGCONT)
    queue = 'interpose_dump_queue_bytes{reader="scribe"}'
    wait_for(lambda: _value(admin, queue) == 0, what="the queue to be empty again")
    await call(relay.socket, "Status", cri.StatusRequest())
    assert relay.child.stop() == 0
    text = dump.read_text()
    assert "not kept, the reader was too slow" in text
    assert "REQUEST Status" in text


async def test_scribe_that_dies_is_started_again(
    scratch: Path, runtime: Child, start_relay: Callable[..., Relay]
) -> None:
    """No call notices; the dump goes on in the same file, the recording in a new one."""
    dump, file = scratch / "dump", scratch / "a.crirec"
    relay = start_relay("--no-hooks", "--dump", "on,Version", "--dump-file", str(dump), "--record", str(file))
    pid = scribe(relay)
    await call(relay.socket, "Version", cri.VersionRequest(version="first"))
    wait_for(lambda: dump.exists() and "first" in dump.read_text(), what="the first line")
    os.kill(pid, signal.SIGKILL)
    await call(relay.socket, "Version", cri.VersionRequest(version="unseen"))
    wait_for(lambda: status(relay)["starts"] == 2 and status(relay)["readers"] == 1, what="another dump worker")
    await call(relay.socket, "Version", cri.VersionRequest(version="second"))
    assert relay.child.stop() == 0
    text = dump.read_text()
    assert text.index("first") < text.index("second")
    assert len(rotated_set(file)) == 2
    assert "Dump writer exited, restarting" in relay.log.read_text()


async def test_signals_to_the_whole_group_leave_the_scribe_to_the_relay(
    scratch: Path, runtime: Child, start_relay: Callable[..., Relay]
) -> None:
    """As Ctrl-C in a terminal or a service manager sends them: the last call is in the dump."""
    dump = scratch / "dump"
    relay = start_relay("--no-hooks", "--dump", "reset,full:.*", "--dump-file", str(dump))
    pid = scribe(relay)
    wait_for(dump.exists, what="the dump worker to be at work")
    await call(relay.socket, "Version", cri.VersionRequest(version="last"))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)
    assert relay.child.stop() == 0
    assert "version: last" in dump.read_text()


async def test_attached_reader_sees_calls_and_leaves_no_trace(
    scratch: Path, runtime: Child, start_relay: Callable[..., Relay], admin: Admin
) -> None:
    """Of what its rules say; the relay is a pass-through before and after."""
    relay = start_relay("--no-hooks")
    with attach(str(relay.admin), ["reset,full:.*,off:Version"]) as attached:
        stream = FrameStream()
        assert isinstance(stream.feed(attached.read(10) or b"")[0], Header)
        await call(relay.socket, "Version", cri.VersionRequest())
        await call(relay.socket, "Status", cri.StatusRequest())
        begin = stream.feed(attached.read(10) or b"")[0]
        assert isinstance(begin, Begin)
        assert begin.path.endswith("/Status")
        assert status(relay)["readers"] == 1
    wait_for(lambda: status(relay)["readers"] == 0, what="the reader to be gone")
    await call(relay.socket, "Status", cri.StatusRequest())
    assert _value(admin, 'interpose_dump_frames_total{reader="attached"}') == 5
    assert relay.child.stop() == 0


async def test_reader_that_has_seen_enough_gets_the_rest(runtime: Child, start_relay: Callable[..., Relay]) -> None:
    """From the relay's answer on, up to the call that ended just before it said so."""
    relay = start_relay("--no-hooks")
    with attach(str(relay.admin)) as attached:
        for _ in range(3):
            await call(relay.socket, "Version", cri.VersionRequest())
        attached.finish()
        frames = FrameStream().feed(b"".join(attached))
    assert [type(one) for one in frames] == [Header, *[Begin, Message, Message, End] * 3]
    assert relay.child.stop() == 0


async def test_reader_that_does_not_read_loses_frames(
    scratch: Path, runtime: Child, start_relay: Callable[..., Relay]
) -> None:
    """And hears of it when it reads again."""
    relay = start_relay("--no-hooks", "--dump-queue", "64KiB")
    with attach(str(relay.admin)) as attached:
        wait_for(lambda: status(relay)["readers"] == 1, what="the reader to be there")
        async with grpc_channel(relay.socket) as channel:
            for _ in range(2000):
                await channel.unary_unary(RUNTIME + "ListContainers")(b"", timeout=WAIT_LIMIT)
        assert status(relay)["dropped"] > 0
        stream = FrameStream()
        while (data := attached.read(0.2)) is not None:
            stream.feed(data)
        await call(relay.socket, "Version", cri.VersionRequest())
        frames = stream.feed(attached.read(10) or b"")
    assert any(isinstance(one, Dropped | Begin) for one in frames)
    assert stream.damaged == 0


@pytest.mark.parametrize(
    ("query", "code", "why"),
    [("full=Version,Coffee", 400, "'Coffee' is not a CRI method"), ("rules=x", 400, "only full, calls, others")],
)
async def test_wrong_wishes_are_refused(
    scratch: Path,
    runtime: Child,
    start_relay: Callable[..., Relay],
    admin: Admin,
    query: str,
    code: int,
    why: str,
) -> None:
    """With the reason."""
    start_relay("--no-hooks")
    answered, text = admin(f"/v1/dump?{query}")
    assert answered == code
    assert why in text.replace('\\"', "'")


async def test_messages_are_not_shown_on_a_network_address(scratch: Path, runtime: Child) -> None:
    """Anybody on this machine could ask there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with Relay(scratch, scratch / "runtime.sock", ("--no-hooks", "--admin-listen", address)) as relay:
        relay.child.wait_until(lambda: _answers(address), what="the admin port")
        with pytest.raises(click.ClickException, match=r"unix admin socket only.*403"):
            attach(address)


def _answers(address: str) -> bool:
    try:
        ask(address, "GET", "/v1/status")
    except click.ClickException:
        return False
    return True


async def test_redaction_that_is_off_is_said_loudly(
    scratch: Path, runtime: Child, start_relay: Callable[..., Relay]
) -> None:
    """And then nothing is hidden."""
    dump = scratch / "dump"
    relay = start_relay("--no-hooks", "--dump", "reset,full:.*", "--dump-file", str(dump), "--dump-redact", "none")
    await call(relay.socket, "/runtime.v1.ImageService/PullImage", pull("busybox:1.36", SECRET))
    assert relay.child.stop() == 0
    assert "Redaction is off" in relay.log.read_text()
    assert SECRET in dump.read_text()


async def test_successor_goes_on_with_dump_and_recording(
    scratch: Path, runtime: Child, start_relay: Callable[..., Relay]
) -> None:
    """The dump is not emptied, the recording of the old one is whole beside the new one's."""
    dump, file = scratch / "dump", scratch / "a.crirec"
    relay = start_relay("--no-hooks", "--dump", "reset,full:.*", "--dump-file", str(dump), "--record", str(file))
    await call(relay.socket, "Version", cri.VersionRequest(version="before"))
    await asyncio.to_thread(relay.take_over)
    await call(relay.socket, "Version", cri.VersionRequest(version="after"))
    assert relay.child.stop() == 0
    text = dump.read_text()
    assert text.index("version: before") < text.index("version: after")
    recordings = [Recording(one) for one in rotated_set(file)]
    assert sorted(len(list(one.flows())) for one in recordings) == [1, 1]
    assert all(one.damage == [] for one in recordings)


@pytest.mark.parametrize("option", ["--record", "--dump-file"])
def test_file_in_no_directory_ends_the_start(scratch: Path, option: str) -> None:
    """With a message and the exit code of a wrong configuration."""
    argv = [str(program()), "relay", "--listen", str(scratch / "s"), "--admin-listen", "none", "--dump", "on"]
    done = subprocess.run(
        [*argv, "--runtime-endpoint", str(scratch / "r"), option, str(scratch / "no" / "x")],
        capture_output=True,
        text=True,
        timeout=WAIT_LIMIT,
        check=False,
    )
    assert done.returncode == 78
    assert f"'{scratch}/no' is not a directory" in done.stderr.replace('"', "'")
