"""The hook server of tests: its answers, its bad manners, its registration file."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from interpose._pb import hook_pb2 as hook
from interpose.hooks.api.hookpoint import FailurePolicy, HookPoint
from interpose.net.grpc.handlers import Unary
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.hookserver import GARBAGE, FakeHookServer, echo, register, set_shares

CREATE = HookPoint.PRE_CREATE_CONTAINER
RUN = HookPoint.PRE_RUN_POD_SANDBOX
RESOURCES = hook.LinuxContainerResources(
    cpu_shares=100, unified={"memory.high": "1"}, hugepage_limits=[hook.HugepageLimit(page_size="2MB", limit=1)]
)


class Context:
    """What a server tells a handler."""

    path = CREATE.rpc
    metadata = ((b"grpc-timeout", b"1500m"), (b"x-a", b"1"))
    deadline = None


async def ask(server: FakeHookServer, point: HookPoint, request: Any) -> bytes:
    """Call a handler."""
    handler = server.handlers()[point.rpc]
    assert isinstance(handler, Unary)
    return await handler.handle(request.SerializeToString(), Context())


async def test_it_notes_what_it_was_asked() -> None:
    """Hook point, message, metadata and time left; the answer is empty."""
    server = FakeHookServer()
    request = hook.ContainerResourceHookRequest(container_envs={"A": "1"})
    assert await ask(server, CREATE, request) == b""
    (asked,) = server.calls
    assert (asked.point, asked.request, asked.timeout) == (CREATE, request, 1.5)
    assert (b"x-a", b"1") in asked.metadata


async def test_it_forgets_if_told_so() -> None:
    """A long run must not fill the memory."""
    server = FakeHookServer(keep=False)
    await ask(server, CREATE, hook.ContainerResourceHookRequest())
    assert server.calls == []


async def test_answers_by_hook_point() -> None:
    """A fixed response here, a function there, the default elsewhere."""
    fixed = hook.ContainerResourceHookResponse(pod_cgroup_parent="/a")
    server = FakeHookServer(echo)
    server.answers[CREATE] = fixed
    server.answers[RUN] = lambda request: hook.PodSandboxHookResponse(cgroup_parent=request.cgroup_parent + "/x")
    request = hook.ContainerResourceHookRequest(pod_cgroup_parent="/z")
    assert await ask(server, CREATE, request) == fixed.SerializeToString()
    answer = await ask(server, RUN, hook.PodSandboxHookRequest(cgroup_parent="/b"))
    assert hook.PodSandboxHookResponse.FromString(answer).cgroup_parent == "/b/x"
    answer = await ask(server, HookPoint.POST_STOP_CONTAINER, request)
    assert hook.ContainerResourceHookResponse.FromString(answer).pod_cgroup_parent == "/z"


async def test_errors_and_garbage() -> None:
    """An RpcError is raised, garbage is returned."""
    server = FakeHookServer(RpcError(Code.ABORTED, "no"))
    with pytest.raises(RpcError, match="ABORTED: no"):
        await ask(server, CREATE, hook.ContainerResourceHookRequest())
    server.garbage(CREATE)
    assert await ask(server, CREATE, hook.ContainerResourceHookRequest()) == GARBAGE


async def test_an_answer_of_the_wrong_kind_is_a_mistake_of_the_test() -> None:
    """It is not sent."""
    server = FakeHookServer(hook.PodSandboxHookResponse())
    with pytest.raises(TypeError, match="PodSandboxHookResponse is no answer at PreCreateContainer"):
        await ask(server, CREATE, hook.ContainerResourceHookRequest())


async def test_stall_holds_calls_until_released() -> None:
    """A cancelled one is noted."""
    server = FakeHookServer()
    stall = server.stall(CREATE)
    held = asyncio.create_task(ask(server, CREATE, hook.ContainerResourceHookRequest()))
    dropped = asyncio.create_task(ask(server, CREATE, hook.ContainerResourceHookRequest()))
    await server.changes.until(lambda: len(server.calls) == 2)
    dropped.cancel()
    await server.changes.until(lambda: server.cancelled == [CREATE])
    stall.release()
    assert await held == b""


def test_echo_repeats_what_an_answer_can_say() -> None:
    """All kinds of fields of both messages; what only requests have is left out."""
    pod = hook.PodSandboxHookRequest(
        pod_meta=hook.PodSandboxMetadata(name="p"),
        labels={"a": "1"},
        annotations={"b": "2"},
        cgroup_parent="/kube",
        resources=RESOURCES,
        overhead=RESOURCES,
    )
    assert echo(pod) == hook.PodSandboxHookResponse(
        labels={"a": "1"}, annotations={"b": "2"}, cgroup_parent="/kube", resources=RESOURCES
    )
    container = hook.ContainerResourceHookRequest(
        container_annotations={"a": "1"},
        container_envs={"E": "x"},
        container_resources=RESOURCES,
        pod_cgroup_parent="/kube",
        pod_labels={"l": "1"},
    )
    assert echo(container) == hook.ContainerResourceHookResponse(
        container_annotations={"a": "1"},
        container_envs={"E": "x"},
        container_resources=RESOURCES,
        pod_cgroup_parent="/kube",
    )
    assert not echo(hook.ContainerResourceHookRequest()).HasField("container_resources")


def test_shares_alone_and_in_an_echo() -> None:
    """A partial answer has nothing else; pods are left alone."""
    request = hook.ContainerResourceHookRequest(container_resources=RESOURCES)
    alone = hook.LinuxContainerResources(cpu_shares=2)
    assert set_shares(2)(request) == hook.ContainerResourceHookResponse(container_resources=alone)
    full = set_shares(2, echo)(request).container_resources
    assert (full.cpu_shares, full.unified) == (2, {"memory.high": "1"})
    assert set_shares(2, echo)(hook.PodSandboxHookRequest(cgroup_parent="/a")).cgroup_parent == "/a"


def test_register_writes_the_file_in_one_go(tmp_path: Path) -> None:
    """Keys as in the file, mode as the relay wants it, nothing else left behind; a second time replaces it."""
    register(tmp_path, "a", "/run/a.sock")
    path = register(
        tmp_path, "a", tmp_path / "s", hooks=[CREATE, "PreRunPodSandbox"], failure_policy=FailurePolicy.FAIL, priority=5
    )
    assert json.loads(path.read_text()) == {
        "remote-endpoint": str(tmp_path / "s"),
        "failure-policy": "Fail",
        "runtime-hooks": ["PreCreateContainer", "PreRunPodSandbox"],
        "priority": 5,
    }
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_register_defaults(tmp_path: Path) -> None:
    """Every hook point, and no word about the policy."""
    document = json.loads(register(tmp_path, "a", "/run/a.sock").read_text())
    assert document == {"remote-endpoint": "/run/a.sock", "runtime-hooks": [point.value for point in HookPoint]}
