"""Calls of our own over a real socket to runtimes of both API versions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interpose.core.model.resources import LinuxResources
from interpose.cri.api_version import RuntimeCalls
from interpose.cri.store import convert
from interpose.net.grpc.client import Client
from interpose.net.grpc.server import serve
from interpose.net.grpc.status import Code, RpcError
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream
from interpose.net.h2.limits import Limits
from interpose.testing.fakeruntime import FakeRuntime


@asynccontextmanager
async def runtime_of(path: Path, *versions: str) -> AsyncIterator[tuple[FakeRuntime, RuntimeCalls]]:
    """A runtime with a pod that serves these versions, and calls to it."""
    runtime = FakeRuntime()
    runtime.populate(1)
    server = await serve(path, runtime.handlers(versions))
    hub = Hub()
    upstream = Upstream(str(path), hub=hub, limits=Limits(), wait=10.0)
    try:
        yield runtime, RuntimeCalls(Client(upstream, hub))
    finally:
        await upstream.close()
        await server.close()


@pytest.mark.parametrize("version", ["v1", "v1alpha2"])
async def test_update_reaches_a_container(runtime_path: Path, version: str) -> None:
    """Whichever version the runtime has; what the update does not set stays."""
    async with runtime_of(runtime_path, version) as (runtime, call):
        (container,) = runtime.containers.values()
        shares = container.resources.cpu_shares
        wanted = LinuxResources(cpu_quota=-1, cpuset_cpus="2-3")
        await call("UpdateContainerResources", convert.update_resources(container.id, wanted))
        assert (container.resources.cpu_quota, container.resources.cpuset_cpus) == (-1, "2-3")
        assert container.resources.cpu_shares == shares
        status = convert.container_of_status(await call("ContainerStatus", convert.container_status(container.id)))
        assert status.record.resources.cpuset_cpus == "2-3"


async def test_runtimes_own_words_arrive(runtime_path: Path) -> None:
    """A container that is gone is NOT_FOUND, not an error of ours."""
    async with runtime_of(runtime_path, "v1") as (_, call):
        with pytest.raises(RpcError) as caught:
            await call("UpdateContainerResources", convert.update_resources("gone", LinuxResources(cpu_shares=2)))
        assert caught.value.code is Code.NOT_FOUND
