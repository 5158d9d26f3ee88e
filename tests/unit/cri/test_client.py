"""Every method of the interface: the call it makes, its deadline, and what it gives back."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from google.protobuf.message import Message

from interpose.cri.client import RuntimeClient
from interpose.cri.messages import cri
from interpose.cri.methods import METHODS
from interpose.cri.services import ImageService, RuntimeService
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import BUSYBOX, container_config, pod_config


class Recording:
    """Passes calls on and keeps their deadlines."""

    def __init__(self, inner: FakeRuntime) -> None:
        self._inner = inner
        self.made: list[tuple[str, float | None]] = []

    async def call(self, method: str, request: Message, *, timeout: float | None = None) -> Any:
        assert type(request).__name__ == METHODS[method].request
        self.made.append((method, timeout))
        return await self._inner.call(method, request, timeout=timeout)

    def stream(self, method: str, request: Message, *, timeout: float | None = None) -> AsyncGenerator[Any, None]:
        self.made.append((method, timeout))
        return self._inner.stream(method, request, timeout=timeout)


@pytest.fixture
def runtime() -> FakeRuntime:
    return FakeRuntime()


@pytest.fixture
def caller(runtime: FakeRuntime) -> Recording:
    return Recording(runtime)


@pytest.fixture
def services(caller: Recording) -> RuntimeClient:
    return RuntimeClient(caller)


def test_it_is_both_interfaces(services: RuntimeClient) -> None:
    """What the manager wants of a runtime."""
    runtime: RuntimeService = services
    images: ImageService = services
    assert {type(runtime), type(images)} == {RuntimeClient}


async def test_the_life_of_a_pod(services: RuntimeClient, caller: Recording) -> None:
    """From its sandbox to nothing, each call with its deadline."""
    config = pod_config("web")
    sandbox = await services.run_pod_sandbox(config)
    [listed] = await services.list_pod_sandbox(cri.PodSandboxFilter(id=sandbox))
    assert listed.id == sandbox
    assert (await services.pod_sandbox_status(sandbox, verbose=True)).info
    one = await services.create_container(sandbox, container_config(config), config)
    await services.start_container(one)
    [container] = await services.list_containers()
    assert container.id == one
    await services.update_container_resources(one, cri.LinuxContainerResources(cpu_shares=7), {"a": "b"})
    assert (await services.container_status(one, verbose=True)).status.resources.linux.cpu_shares == 7
    await services.update_pod_sandbox_resources(sandbox, None, cri.LinuxContainerResources(cpu_shares=7))
    assert (await services.exec_sync(one, ["echo", "hello"], 5)).stdout == b"hello\n"
    assert (await services.exec_sync(one, ["true"])).exit_code == 0
    assert "/exec/" in await services.exec(one, ["sh"])
    assert "/attach/" in await services.attach(one)
    assert "/portforward/" in await services.port_forward(sandbox, [80])
    await services.reopen_container_log(one)
    await services.checkpoint_container(one, "/nowhere")
    await services.stop_container(one, 10)
    await services.remove_container(one)
    await services.stop_pod_sandbox(sandbox)
    await services.remove_pod_sandbox(sandbox)
    unusual = [(method, timeout) for method, timeout in caller.made if timeout != 120]
    assert unusual == [("RunPodSandbox", 240), ("ExecSync", 125), ("ExecSync", None), ("StopContainer", 130)]


async def test_the_runtime_itself(services: RuntimeClient) -> None:
    """Version, readiness, configuration."""
    assert (await services.version()).version == "0.1.0"
    assert len((await services.status(verbose=True)).status.conditions) == 2
    assert (await services.runtime_config()).linux.cgroup_driver == cri.CGROUPFS
    network = cri.NetworkConfig(pod_cidr="10.1.0.0/16")
    await services.update_runtime_config(cri.RuntimeConfig(network_config=network))


async def test_images(services: RuntimeClient, caller: Recording) -> None:
    """A pull takes as long as it takes."""
    spec = cri.ImageSpec(image="docker.io/library/nginx:1")
    reference = await services.pull_image(spec, None, None)
    assert ("PullImage", None) in caller.made
    assert (await services.image_status(spec)).image.id == reference
    assert len(await services.list_images(cri.ImageFilter(image=spec))) == 1
    await services.remove_image(spec)
    assert not (await services.image_status(spec)).HasField("image")
    assert (await services.image_fs_info()).image_filesystems


async def test_statistics(services: RuntimeClient, runtime: FakeRuntime) -> None:
    """Of one, of many, and as metrics."""
    [sandbox] = runtime.populate(1)
    [one] = sandbox.containers
    assert (await services.container_stats(one)).attributes.id == one
    assert len(await services.list_container_stats()) == 1
    assert (await services.pod_sandbox_stats(sandbox.id)).attributes.id == sandbox.id
    assert len(await services.list_pod_sandbox_stats()) == 1
    assert await services.list_metric_descriptors()
    assert len(await services.list_pod_sandbox_metrics()) == 1


async def test_events_come_as_they_happen(services: RuntimeClient, runtime: FakeRuntime, caller: Recording) -> None:
    """Without an end, and without a deadline."""

    async def happen() -> None:
        await runtime.wait_for_calls("GetContainerEvents")
        await services.run_pod_sandbox(pod_config("web"))

    async with aclosing(services.container_events()) as events:
        event, _ = await asyncio.gather(anext(events), happen())
    assert event.container_event_type == cri.CONTAINER_CREATED_EVENT
    assert ("GetContainerEvents", None) in caller.made


async def test_an_answer_that_lacks_something_is_a_failure() -> None:
    """It is said which one."""

    class Empty:
        async def call(self, method: str, request: Message, *, timeout: float | None = None) -> Any:
            return getattr(cri, METHODS[method].response)()

        def stream(self, method: str, request: Message, *, timeout: float | None = None) -> AsyncGenerator[Any, None]:
            raise NotImplementedError

    with pytest.raises(RpcError, match="lacks pod_sandbox_id"):
        await RuntimeClient(Empty()).run_pod_sandbox(pod_config("web"))


async def test_failures_come_as_they_are(services: RuntimeClient, runtime: FakeRuntime) -> None:
    """Code and text."""
    runtime.fail("PullImage", Code.UNKNOWN, "RegistryUnavailable: no")
    with pytest.raises(RpcError) as caught:
        await services.pull_image(cri.ImageSpec(image=BUSYBOX), None, None)
    assert (caught.value.code, caught.value.message) == (Code.UNKNOWN, "RegistryUnavailable: no")
