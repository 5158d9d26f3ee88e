"""Real containers in a real local runtime: by an OCI runtime where there is one and we are root, and by our own."""

import asyncio
import json
import os
import shutil
import signal
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from interpose.cri.messages import cri
from interpose.cri.store.verbose_info import read_info
from interpose.net.grpc.status import Code, RpcError
from interpose.net.streaming.client import run_command
from interpose.net.streaming.handler import StreamHandlerError
from interpose.node.runtime.service.wiring import open_runtime
from interpose.node.runtime.shimclient import client as shimclient
from interpose.node.runtime.shimclient.paths import ShimPaths, living_shim
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.grpcpeer import grpc_channel
from tests.support.lab.images import TEST_IMAGE
from tests.support.net.typed_input import Typed
from tests.support.node.local_node import LocalNode, busybox

pytestmark = pytest.mark.skipif(busybox() is None, reason="needs a static busybox")
ROOT = os.geteuid() == 0
PLUGINS = Path("/usr/lib/cni")
EXECUTORS = [
    pytest.param("runc", marks=pytest.mark.skipif(not ROOT or not shutil.which("runc"), reason="needs root and runc")),
    pytest.param("plain", marks=pytest.mark.skipif(not ROOT, reason="cgroups need root")),
]


@pytest.fixture(params=EXECUTORS)
async def node(request: pytest.FixtureRequest, scratch: Path) -> AsyncIterator[LocalNode]:
    """A runtime that runs; at the end nothing may be left of it."""
    made = LocalNode(scratch, request.param, cni_bin_dirs=(str(PLUGINS),))
    async with made:
        yield made
        await made.remove_all()
    # A shim that was told to end is a process for another moment.
    await eventually(lambda: not made.leftovers(), "the machine to be clean")


async def until(look: Callable[[], Any], what: str) -> Any:
    """Ask until the answer is true."""
    for _ in range(500):
        if found := await look():
            return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"waited in vain for {what}")


async def ended(node: LocalNode, container: str) -> cri.ContainerStatus:
    """The status of a container once it has ended."""

    async def look() -> cri.ContainerStatus | None:
        status = await node.status(container)
        return status if status.state == cri.CONTAINER_EXITED else None

    found = await until(look, "the end of a container")
    assert isinstance(found, cri.ContainerStatus)
    return found


async def test_a_pod_over_grpc(node: LocalNode) -> None:
    """An independent client runs a pod, in both versions of the API; what it wrote is in its log."""
    pod = node.pod()
    async with grpc_channel(node.socket) as channel:

        async def call(method: str, version: str = "v1", **fields: Any) -> Any:
            unary = channel.unary_unary(f"/runtime.{version}.RuntimeService/{method}")
            request = getattr(cri, f"{method}Request")(**fields)
            return getattr(cri, f"{method}Response").FromString(await unary(request.SerializeToString()))

        assert (await call("Version", "v1alpha2")).runtime_name == "interpose"
        sandbox = (await call("RunPodSandbox", config=pod)).pod_sandbox_id
        config = node.container(pod, "sh", "-c", "echo out; echo err >&2; hostname; exit 7")
        created = await call("CreateContainer", pod_sandbox_id=sandbox, config=config, sandbox_config=pod)
        await call("StartContainer", container_id=created.container_id)
        status = await ended(node, created.container_id)
        assert (status.exit_code, status.reason) == (7, "Error")
        assert status.created_at < status.started_at <= status.finished_at
        lines = [line.split(" ", 1)[1] for line in node.log()]
        assert sorted(lines) == ["stderr F err", "stdout F out", "stdout F web"]
        await call("RemovePodSandbox", "v1alpha2", pod_sandbox_id=sandbox)


async def test_exec_and_updates(node: LocalNode) -> None:
    """A command in a container, its limits changed while it runs, what it uses, what the verbose answer says."""
    pod = node.pod()
    sandbox = (await node.call("RunPodSandbox", config=pod)).pod_sandbox_id
    config = node.container(pod, "sleep", "1000")
    config.linux.resources.cpu_shares = 512
    container = await node.start(pod, sandbox, config)
    answer = await node.call(
        "ExecSync", container_id=container, cmd=["sh", "-c", "echo $0; exit 3"], timeout=int(WAIT_LIMIT)
    )
    assert (answer.stdout, answer.exit_code) == (b"sh\n", 3)
    patch = cri.LinuxContainerResources(cpu_shares=300, cpuset_cpus="0")
    await node.call("UpdateContainerResources", container_id=container, linux=patch)
    verbose = await node.call("ContainerStatus", container_id=container, verbose=True)
    info = read_info(verbose.info)
    assert info.sandbox_id == sandbox
    assert info.cgroup_parent == pod.linux.cgroup_parent
    assert info.current is not None
    assert (info.current.cpu_shares, info.current.cpuset_cpus) == (300, "0")
    assert verbose.status.resources.linux.cpu_shares == 300
    stats = (await node.call("ContainerStats", container_id=container)).stats
    assert stats.cpu.usage_core_nano_seconds.value > 0
    pods = (await node.call("ListPodSandboxStats")).stats
    assert [one.attributes.id for one in pods] == [sandbox]


async def test_stop_signals(node: LocalNode) -> None:
    """The first process gets its signal and a chance; one that does not take it is killed."""
    pod = node.pod()
    sandbox = (await node.call("RunPodSandbox", config=pod)).pod_sandbox_id
    polite = node.container(pod, "sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done")
    container = await node.start(pod, sandbox, polite)
    await until(lambda: _true(bool(node.log())), "the container to be ready")
    await node.call("StopContainer", container_id=container, timeout=30)
    assert (await node.status(container)).exit_code == 9
    config = node.container(pod, "sh", "-c", "trap '' TERM; echo ready; sleep 1000", name="deaf")
    deaf = await node.start(pod, sandbox, config)
    await until(lambda: _true(bool(node.log(name="deaf"))), "the container to be deaf")
    await node.call("StopContainer", container_id=deaf, timeout=1)
    assert (await node.status(deaf)).exit_code == 137


async def _true(value: bool) -> bool:
    return value


async def test_a_program_that_is_not_there(node: LocalNode) -> None:
    """The start fails in the words of who tried, and the container has ended."""
    pod = node.pod()
    sandbox = (await node.call("RunPodSandbox", config=pod)).pod_sandbox_id
    config = node.container(pod, "/no/such/program")
    created = await node.call("CreateContainer", pod_sandbox_id=sandbox, config=config, sandbox_config=pod)
    with pytest.raises(Exception, match="/no/such/program"):
        await node.call("StartContainer", container_id=created.container_id)
    status = await node.status(created.container_id)
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, 128, "StartError")


async def test_containers_survive_the_runtime(node: LocalNode) -> None:
    """The runtime ends and another one starts: it knows what runs, how others ended, and no line is lost."""
    pod = node.pod()
    sandbox = (await node.call("RunPodSandbox", config=pod)).pod_sandbox_id
    script = "n=0; while [ $n -lt 40 ]; do echo $n; n=$((n+1)); sleep 0.02; done; exit 5"
    counting = await node.start(pod, sandbox, node.container(pod, "sh", "-c", script))
    staying = await node.start(pod, sandbox, node.container(pod, "sleep", "1000", name="staying"))
    before = await node.status(staying)
    await node.__aexit__(None, None, None)
    await node.__aenter__()
    assert await node.status(staying) == before
    status = await ended(node, counting)
    assert status.exit_code == 5
    assert [line.split()[-1] for line in node.log()] == [str(number) for number in range(40)]
    await node.call("ExecSync", container_id=staying, cmd=["true"])
    with pytest.raises(BlockingIOError, match=f"process {os.getpid()}"):
        open_runtime(node.options)


async def test_a_shim_that_is_killed(node: LocalNode) -> None:
    """The sandbox is NOTREADY, its containers are ended, and it can be removed."""
    pod = node.pod()
    sandbox = (await node.call("RunPodSandbox", config=pod)).pod_sandbox_id
    container = await node.start(pod, sandbox, node.container(pod, "sleep", "1000"))
    verbose = await node.call("ContainerStatus", container_id=container, verbose=True)
    pid = read_info(verbose.info).document["pid"]
    shim = read_info((await node.call("PodSandboxStatus", pod_sandbox_id=sandbox, verbose=True)).info).document["shim"]
    os.kill(shim, signal.SIGKILL)
    status = await ended(node, container)
    assert (status.exit_code, status.reason) == (255, "Unknown")
    answer = await node.call("PodSandboxStatus", pod_sandbox_id=sandbox)
    assert answer.status.state == cri.SANDBOX_NOTREADY
    await until(lambda: _true(not Path(f"/proc/{pid}").exists()), "the end of its process")


async def test_exec_with_streams(node: LocalNode) -> None:
    """Over the stream server: input, output, exit code, a terminal."""
    pod = node.pod()
    sandbox = (await node.call("RunPodSandbox", config=pod)).pod_sandbox_id
    container = await node.start(pod, sandbox, node.container(pod, "sleep", "1000"))
    out = bytearray()

    async def url() -> str:
        command = ["sh", "-c", "read x; echo got $x; exit 4"]
        answer = await node.call("Exec", container_id=container, cmd=command, stdin=True, stdout=True)
        return str(answer.url)

    assert await run_command(url, stdin=Typed(b"hello\n"), stdout=out.extend) == 4
    assert bytes(out) == b"got hello\n"


async def test_many_at_once(node: LocalNode) -> None:
    """Ten pods in parallel, each with a container; all run, all are removed at once."""

    async def one(number: int) -> str:
        pod = node.pod(f"web{number}")
        sandbox = (await node.call("RunPodSandbox", config=pod)).pod_sandbox_id
        await node.start(pod, sandbox, node.container(pod, "sleep", "1000"))
        return str(sandbox)

    sandboxes = await asyncio.gather(*(one(number) for number in range(10)))
    listed = (await node.call("ListContainers")).containers
    assert [item.state for item in listed] == [cri.CONTAINER_RUNNING] * 10
    await asyncio.gather(*(node.call("RemovePodSandbox", pod_sandbox_id=sandbox) for sandbox in sandboxes))
    assert (await node.call("ListPodSandbox")).items == []


async def test_images(node: LocalNode) -> None:
    """What was imported is there, also while a container made of it outlives it."""
    (image,) = (await node.call("ListImages")).images
    assert list(image.repo_tags) == [TEST_IMAGE]
    pod = node.pod()
    sandbox = (await node.call("RunPodSandbox", config=pod)).pod_sandbox_id
    container = await node.start(pod, sandbox, node.container(pod, "sleep", "1000"))
    await node.call("RemoveImage", image=cri.ImageSpec(image=TEST_IMAGE))
    assert len((await node.call("ListImages")).images) == 0
    answer = await node.call("ExecSync", container_id=container, cmd=["echo", "there"])
    assert answer.stdout == b"there\n"
    assert (await node.call("ImageFsInfo")).container_filesystems[0].fs_id.mountpoint


@pytest.mark.parametrize("node", EXECUTORS[:1], indirect=True)
async def test_out_of_memory(node: LocalNode) -> None:
    """A container that wants more than it may have."""
    pod = node.pod()
    sandbox = (await node.call("RunPodSandbox", config=pod)).pod_sandbox_id
    config = node.container(pod, "sh", "-c", "tail /dev/zero")
    config.linux.resources.memory_limit_in_bytes = 16 << 20
    status = await ended(node, await node.start(pod, sandbox, config))
    assert (status.exit_code, status.reason) == (137, "OOMKilled")


@pytest.mark.skipif(not (PLUGINS / "ptp").exists(), reason="needs the ptp plugin of CNI")
async def test_a_network_of_its_own(node: LocalNode, subnet: str) -> None:
    """A pod with an address: reached from the node and through port forwarding; given back when it stops."""
    network = {
        "cniVersion": "0.4.0",
        "name": "local-test",
        "type": "ptp",
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": f"{subnet}0/24"}]],
            "dataDir": str(node.folder / "ipam"),
        },
    }
    conf = node.folder / "cni"
    conf.mkdir()
    (conf / "10-test.conf").write_text(json.dumps(network))
    pod = node.pod()
    sandbox = (await node.call("RunPodSandbox", config=pod)).pod_sandbox_id
    status = (await node.call("PodSandboxStatus", pod_sandbox_id=sandbox)).status
    assert status.network.ip.startswith(subnet)
    script = "while :; do echo hello | nc -l -p 8080; done"
    await node.start(pod, sandbox, node.container(pod, "sh", "-c", script))

    async def said() -> bytes:
        try:
            reader, writer = await node.runtime.execution.port_forward(sandbox, 8080)
        except StreamHandlerError:
            return b""
        data = await reader.read(100)
        writer.close()
        return data

    assert await until(said, "an answer through the pod's own loopback") == b"hello\n"

    async def from_the_node() -> bytes:
        try:
            reader, writer = await asyncio.open_connection(status.network.ip, 8080)
        except ConnectionRefusedError:  # between two clients nobody listens
            return b""
        data = await reader.read(100)
        writer.close()
        return data

    assert await until(from_the_node, "an answer at the pod's address") == b"hello\n"
    stats = (await node.call("PodSandboxStats", pod_sandbox_id=sandbox)).stats
    assert stats.linux.network.default_interface.name == "eth0"
    await node.call("StopPodSandbox", pod_sandbox_id=sandbox)
    assert [one.name for one in (node.folder / "ipam/local-test").iterdir() if one.name.startswith("10.")] == []


async def test_a_shim_that_hangs(node: LocalNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopping and removing its pod comes to an end, and with it everything that ran."""
    monkeypatch.setattr(shimclient, "TIMEOUT", 0.1)
    monkeypatch.setattr(shimclient, "SECOND_TIMEOUT", 0.1)
    pod = node.pod()
    sandbox = (await node.call("RunPodSandbox", config=pod)).pod_sandbox_id
    container = await node.start(pod, sandbox, node.container(pod, "sleep", "1000"))
    os.kill(living_shim(ShimPaths(folder=node.options.state / "sandboxes" / sandbox)) or 0, signal.SIGSTOP)
    await node.call("StopContainer", container_id=container, timeout=1)
    status = await node.status(container)
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, 255, "Unknown")
    await node.call("StopPodSandbox", pod_sandbox_id=sandbox)
    await node.call("RemovePodSandbox", pod_sandbox_id=sandbox)


@pytest.mark.skipif(not ROOT, reason="cgroups need root")
async def test_a_path_that_hangs(scratch: Path) -> None:
    """Is named to whoever asked for it, however many do; other pods go on, and so does this one without the path."""
    hung = scratch / "profile"
    os.mkfifo(hung)  # to open it waits for somebody who writes
    made = LocalNode(scratch, "plain", path_timeout=0.3)
    async with made:
        pod, other = made.pod("web"), made.pod("other")
        sandbox = (await made.call("RunPodSandbox", config=pod)).pod_sandbox_id

        async def create(number: int) -> str:
            config = made.container(pod, "sleep", "1000", name=f"c{number}")
            profile = cri.SecurityProfile(profile_type=cri.SecurityProfile.Localhost, localhost_ref=str(hung))
            config.linux.security_context.seccomp.CopyFrom(profile)
            with pytest.raises(RpcError) as caught:
                await made.call("CreateContainer", pod_sandbox_id=sandbox, config=config, sandbox_config=pod)
            assert caught.value.code is Code.DEADLINE_EXCEEDED
            return caught.value.message

        # Many more than asyncio has threads of its own.
        said = asyncio.gather(*(create(number) for number in range(40)))
        second = (await made.call("RunPodSandbox", config=other)).pod_sandbox_id
        running = await made.start(other, second, made.container(other, "sleep", "1000"))
        assert (await made.call("ContainerStats", container_id=running)).stats.attributes.id == running
        assert sum(f"{str(hung)!r} did not answer within 0.3 s" in one for one in await said) == 4
        os.close(os.open(hung, os.O_WRONLY))
        await eventually(lambda: not _hanging(), "the path to be let go of")
        await made.start(pod, sandbox, made.container(pod, "sleep", "1000"))
        await made.remove_all()
    await eventually(lambda: not made.leftovers(), "the machine to be clean")


def _hanging() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "path of a pod"]
