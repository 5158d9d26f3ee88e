"""A cluster for tests: our test API server, or a real one if there is a kubeconfig for it.

Names that tests use have a suffix of their own, and what they made is removed at the end: a real cluster stays as it
was. Faults exist only on our own server; tests that need them skip on a real one, visibly.
"""

import asyncio
import secrets
import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from interpose.kube.client.api import EVENTS, NODES, ApiError, Object, Resource, WatchEvent
from interpose.kube.client.client import KubeClient
from interpose.kube.client.kubeconfig import find_access
from interpose.net.http.errors import UnreachableError
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.apiserver.faults import Faults
from tests.support.apiserver.resources import NAMESPACES
from tests.support.apiserver.server import ApiServer

# A kubeconfig of a cluster whose tests may create nodes, a namespace and events.
VARIABLE = "INTERPOSE_TEST_KUBECONFIG"

_NODE_EVENTS = "default"  # where events about what has no namespace are


class Cluster:
    """What tests need of a cluster. `namespace` and `node` are theirs alone."""

    def __init__(self, kubeconfig: Path, api: KubeClient, server: ApiServer | None) -> None:
        self.kubeconfig = kubeconfig
        self.api = api
        self.server = server
        self._suffix = secrets.token_hex(3)
        self.namespace = self.name("interpose-test")
        self.node = self.name("interpose-test")
        self._made: list[tuple[Resource, str, str]] = []

    @property
    def faults(self) -> Faults | None:
        """None on a real cluster."""
        return self.server.faults if self.server is not None else None

    def name(self, base: str) -> str:
        """One that nobody else uses."""
        return f"{base}-{self._suffix}"

    async def create(self, resource: Resource, body: Object, *, namespace: str = "") -> Object:
        """A new object that is removed at the end."""
        made = await self.api.create(resource, body, namespace=namespace)
        self._made.append((resource, made["metadata"]["name"], namespace))
        return made

    async def begin(self) -> None:
        """Make the namespace and the node."""
        await self.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        await self.create(NODES, {"metadata": {"name": self.node, "labels": {"interpose/test": "true"}}})

    async def end(self) -> None:
        """Remove what was made, the last first."""
        for resource, name, namespace in reversed(self._made):
            await self.delete(resource, name, namespace=namespace)

    async def delete(self, resource: Resource, name: str, *, namespace: str = "") -> None:
        """Delete an object, whether it is still there or not. The client of the agent cannot, so kubectl does."""
        if self.server is not None:
            if any(item["metadata"]["name"] == name for item in self.server.list(resource, namespace=namespace)):
                self.server.remove(resource, name, namespace=namespace)
            return
        plural = f"{resource.plural}.{resource.version}.{resource.group}" if resource.group else resource.plural
        argv = ["--kubeconfig", str(self.kubeconfig), "delete", plural, name, "--ignore-not-found", "--wait=false"]
        argv += ["--namespace", namespace] if namespace else []
        process = await asyncio.create_subprocess_exec("kubectl", *argv, stdout=asyncio.subprocess.DEVNULL)
        if code := await process.wait():
            raise AssertionError(f"kubectl could not delete {plural} {name}: exit code {code}")

    async def events_of(self, resource: Resource, version: str, count: int, **where: str) -> list[WatchEvent]:
        """The next so many events of a watch, bookmarks not counted."""
        told: list[WatchEvent] = []
        async with asyncio.timeout(WAIT_LIMIT):
            async with aclosing(_watch(self.api, resource, version, where)) as events:
                async for event in events:
                    if event.change != "BOOKMARK":
                        told.append(event)
                    if len(told) == count:
                        break
        return told

    def event_about_node(self, name: str) -> tuple[Resource, dict[str, Any], str]:
        """Resource, body and namespace of an event about our node."""
        involved = {"kind": "Node", "name": self.node, "apiVersion": "v1"}
        body = {
            "metadata": {"name": name},
            "involvedObject": involved,
            "reason": "Test",
            "message": "m",
            "type": "Normal",
        }
        return EVENTS, body, _NODE_EVENTS


async def _watch(
    api: KubeClient, resource: Resource, version: str, where: dict[str, str]
) -> AsyncGenerator[WatchEvent, None]:
    async with aclosing(api.watch(resource, version=version, **where)) as events:  # type: ignore[type-var]
        async for event in events:
            yield event


def why_not(kubeconfig: str) -> str:
    """Why the tests cannot run against a real cluster, or nothing."""
    if not Path(kubeconfig).is_file():
        return f"{VARIABLE}={kubeconfig} is no file"
    return "" if shutil.which("kubectl") else "kubectl is not installed, and it cleans up in a real cluster"


@asynccontextmanager
async def open_cluster(folder: Path, kubeconfig: str = "") -> AsyncIterator[Cluster]:
    """Our own server, or the cluster of this kubeconfig. `folder` is for files of this test."""
    async with AsyncExitStack() as stack:
        server = None
        path = Path(kubeconfig)
        if not kubeconfig:
            server = await stack.enter_async_context(ApiServer(tokens={"test-token": "tester"}, tls=True))
            path = server.kubeconfig(folder / "kubeconfig")
        api = KubeClient(find_access(str(path), {}), timeout=WAIT_LIMIT, user_agent="interpose-test")
        stack.push_async_callback(api.close)
        cluster = Cluster(path, api, server)
        try:
            await cluster.begin()
            yield cluster
        finally:
            try:
                await cluster.end()
            except (ApiError, UnreachableError):  # pragma: no cover - the test says more
                if server is None:
                    raise
