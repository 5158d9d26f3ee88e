"""Client and follower together against the API server of tests, through its bad days."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interpose.kube.client.api import CONFIG_MAPS, NODE_SLOS
from interpose.kube.client.client import KubeClient
from interpose.kube.client.kubeconfig import find_access
from interpose.kube.client.watcher import ObjectWatcher
from interpose.tasks import TaskBag
from interpose.testing.eventually import WAIT_LIMIT, eventually
from tests.support.apiserver.server import ApiServer


def config_map(value: str, name: str = "cm") -> dict[str, Any]:
    """One with a value in it."""
    return {"metadata": {"name": name, "namespace": "kube-system"}, "data": {"a": value}}


def slo(value: str) -> dict[str, Any]:
    """The same of another kind."""
    return {"metadata": {"name": "cm", "annotations": {"a": value}}}


def value_of(follower: ObjectWatcher) -> str | None:
    """The value that the follower has seen."""
    if follower.object is None:
        return None
    return str((follower.object.get("data") or follower.object["metadata"]["annotations"])["a"])


@asynccontextmanager
async def following(access: Any, resource: Any = CONFIG_MAPS, **more: Any) -> AsyncIterator[ObjectWatcher]:
    """A follower at work; it waits a hundredth of what it would."""

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds / 100)

    client, tasks = KubeClient(access, timeout=WAIT_LIMIT, user_agent="interpose-agent/0"), TaskBag()
    namespace = "kube-system" if resource.namespaced else ""
    follower = ObjectWatcher(
        client, resource, name="cm", namespace=namespace, changed=lambda: None, sleep=sleep, **more
    )
    tasks.spawn(follower.run(), name="follow")
    try:
        yield follower
    finally:
        await tasks.cancel()
        await client.close()


async def seen(follower: ObjectWatcher, value: str | None) -> None:
    """Until the follower knows it."""
    await eventually(lambda: follower.known and value_of(follower) == value, f"{value} in {follower.object}")


async def watching(server: ApiServer, follower: ObjectWatcher) -> None:
    """Until the watch has begun at the server."""
    await eventually(
        lambda: sum("watch" in logged.query for logged in server.requests) >= follower.watches > 0, "the watch"
    )


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_life_of_an_object(tmp_path: Path, tls: bool) -> None:
    """From a kubeconfig to the object: created, changed, deleted, created again."""
    async with ApiServer(tokens={"secret": "agent"}, tls=tls) as server:
        access = find_access(str(server.kubeconfig(tmp_path / "config")), {})
        async with following(access) as follower:
            await seen(follower, None)
            server.put(CONFIG_MAPS, config_map("1"))
            await seen(follower, "1")
            server.put(CONFIG_MAPS, config_map("x", name="other"))
            server.put(CONFIG_MAPS, config_map("2"))
            await seen(follower, "2")
            server.remove(CONFIG_MAPS, "cm", namespace="kube-system")
            await seen(follower, None)
            server.put(CONFIG_MAPS, config_map("3"))
            await seen(follower, "3")
            assert follower.lists == 1
            assert follower.problem == ""
    assert {logged.agent for logged in server.requests} == {"interpose-agent/0"}


async def cut(server: ApiServer) -> None:
    """Watches break between two lines."""
    server.faults.cut_watches()


async def cut_in_a_line(server: ApiServer) -> None:
    """Watches break in the middle of a line."""
    server.faults.cut_watches(mid_line=True)


async def end(server: ApiServer) -> None:
    """Watches end as they do every few minutes."""
    server.faults.end_watches()


async def forget(server: ApiServer) -> None:
    """The version from which watches go on is too old."""
    server.faults.bookmark()
    server.faults.expire_history()
    server.faults.cut_watches()


async def garble(server: ApiServer) -> None:
    """Something that is no event comes."""
    server.faults.garble_watches(b"\x00garbage\n")


async def drop(server: ApiServer) -> None:
    """All connections break."""
    server.faults.drop_connections()


async def restart(server: ApiServer) -> None:
    """It comes back without what it remembered."""
    await server.faults.restart(lose_history=True)


async def be_busy(server: ApiServer) -> None:
    """It has no time for a few requests."""
    server.faults.answer(429, times=2, retry_after=1)
    server.faults.answer(503, times=1)
    server.faults.cut_watches()


async def truncate(server: ApiServer) -> None:
    """Answers break in the middle."""
    server.faults.truncate(times=2)
    server.faults.drop_connections()


@pytest.mark.parametrize(
    "fault", [cut, cut_in_a_line, end, forget, garble, drop, restart, be_busy, truncate], ids=lambda f: f.__name__
)
async def test_bad_days(tmp_path: Path, fault: Callable[[ApiServer], Awaitable[None]]) -> None:
    """Whatever happens, a change made meanwhile is seen, and nothing is taken for missing on the way."""
    missing: list[object] = []
    async with ApiServer() as server:
        server.put(CONFIG_MAPS, config_map("1"))
        async with following(find_access(str(server.kubeconfig(tmp_path / "config")), {})) as follower:
            await seen(follower, "1")
            follower._changed = lambda: missing.append(1) if follower.object is None else None
            await watching(server, follower)
            for value in ("2", "3"):
                await fault(server)
                server.put(CONFIG_MAPS, config_map(value))
                await seen(follower, value)
                await eventually(lambda: follower.problem == "", "the end of the problem")
            assert follower.watches > 1
    assert missing == []


async def test_deletion_while_nobody_looked(tmp_path: Path) -> None:
    """A list without the object says that it is gone."""
    async with ApiServer() as server:
        server.put(CONFIG_MAPS, config_map("1"))
        async with following(find_access(str(server.kubeconfig(tmp_path / "config")), {})) as follower:
            await seen(follower, "1")
            await watching(server, follower)
            await server.faults.stop()
            server.remove(CONFIG_MAPS, "cm", namespace="kube-system")
            server.faults.expire_history()
            await eventually(lambda: "connection refused" in follower.problem, "the problem")
            assert value_of(follower) == "1"
            await server.faults.start()
            await seen(follower, None)
            await eventually(lambda: follower.problem == "", "the end of the problem")


async def test_rotated_token_of_a_pod(tmp_path: Path) -> None:
    """The token of a service account is replaced while the server takes only the new one."""
    async with ApiServer(tokens={"secret": "agent"}, tls=True) as server:
        folder = tmp_path / "var/run/secrets/kubernetes.io/serviceaccount"
        env = server.service_account(folder)
        async with following(find_access("", env, root=str(tmp_path))) as follower:
            await seen(follower, None)
            server.faults.rotate_token("secret", "newer")
            server.faults.drop_connections()
            await eventually(lambda: "401" in follower.problem, "the refusal")
            server.service_account(folder)
            server.put(CONFIG_MAPS, config_map("1"))
            await seen(follower, "1")
            assert follower.problem == ""


async def test_role_by_name(tmp_path: Path) -> None:
    """What a Role with resourceNames allows is enough; what it does not name is forbidden."""
    async with ApiServer(tokens={"secret": "agent"}) as server:
        rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cm"], "verbs": ["list", "watch"]}
        server.access.restrict("agent", [rule], namespace="kube-system")
        access = find_access(str(server.kubeconfig(tmp_path / "config")), {})
        server.put(CONFIG_MAPS, config_map("1"))
        async with following(access) as follower, following(access, NODE_SLOS) as other:
            await seen(follower, "1")
            await eventually(lambda: other.forbidden, "the refusal")
            assert not other.known


async def test_role_without_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the role of CRI Resource Manager's agent allows is enough: a whole life of an object, and a bad day."""
    monkeypatch.setattr("interpose.kube.client.watcher._CONFIRMED", 0.5)  # it may go between a look and a watch
    async with ApiServer(tokens={"secret": "agent"}) as server:
        verbs = ["get", "patch", "update", "watch"]
        server.access.restrict("agent", [{"apiGroups": [""], "resources": ["nodes", "configmaps"], "verbs": verbs}])
        async with following(find_access(str(server.kubeconfig(tmp_path / "config")), {})) as follower:
            await seen(follower, None)
            await watching(server, follower)
            server.put(CONFIG_MAPS, config_map("1"))
            await seen(follower, "1")
            server.faults.expire_history()
            server.faults.cut_watches()
            server.put(CONFIG_MAPS, config_map("2"))
            await seen(follower, "2")
            server.remove(CONFIG_MAPS, "cm", namespace="kube-system")
            await seen(follower, None)
            assert (follower.problem, follower.forbidden, follower.current) == ("", False, True)
    assert sum(logged.code == 403 for logged in server.requests) == 1


async def test_kind_that_is_not_installed(tmp_path: Path) -> None:
    """The server says itself that it has no such kind; when it is installed, its objects are seen."""
    async with ApiServer() as server:
        server.hidden.add(NODE_SLOS)
        access = find_access(str(server.kubeconfig(tmp_path / "config")), {})
        async with following(access, NODE_SLOS) as follower:
            await eventually(lambda: follower.known, "the absence")
            assert (follower.object, follower.current) == (None, True)
            assert follower.problem == "NodeSLO: 404 page not found (404)"
            server.hidden.clear()
            server.put(NODE_SLOS, slo("1"))
            await seen(follower, "1")
            assert follower.problem == ""


async def test_404_of_a_load_balancer(tmp_path: Path) -> None:
    """It is no word about the kind: what was known stays."""
    missing: list[object] = []
    async with ApiServer() as server:
        server.put(NODE_SLOS, slo("1"))
        access = find_access(str(server.kubeconfig(tmp_path / "config")), {})
        async with following(access, NODE_SLOS) as follower:
            await seen(follower, "1")
            await watching(server, follower)
            follower._changed = lambda: missing.append(1) if follower.object is None else None
            server.faults.answer(404, times=30)
            server.faults.expire_history()
            server.faults.cut_watches()
            server.put(NODE_SLOS, slo("2"))
            await eventually(lambda: "no answer of an API server" in follower.problem, "the problem")
            await seen(follower, "2")
    assert missing == []
