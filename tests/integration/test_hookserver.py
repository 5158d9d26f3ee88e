"""The life of `interpose hookserver` as a process: what it serves, registers and tells, and how it begins and ends."""

import asyncio
import json
import re
import signal
import stat
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose._pb import hook_pb2 as hook
from interpose.config.hookserver.settings import PluginSettings
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.plugin_registry import enabled_plugins, stages_of
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.fakenode import FakeNode, PlainCgroups
from interpose.testing.grpcpeer import grpc_channel
from interpose.testing.qospods import be_pod, ls_pod
from interpose.testing.runtime.state import FakeSandbox
from interpose.testing.serve import serve_runtime
from tests.support.hooks.node import node_document, write_cpus
from tests.support.lab.hookserver import HookServer
from tests.support.lab.processes import accepts, wait_for

FakeNodeStart = Callable[..., Path]
Make = Callable[..., HookServer]
Admin = Callable[..., tuple[int, str]]
Ask = Callable[..., tuple[int, str]]
FAILED, CONFIG = 1, 78
# Best-effort pods are limited together, so none of them has a quota.
TOGETHER, ALONE = node_document(cfs_quota=True), node_document()
REFERENCE = Path(__file__).parents[2] / "docs/reference/metrics.md"
PREFIX = "interpose_hookserver_"
SERVED = stages_of(enabled_plugins(PluginSettings()), frozenset())
STAGES = [point.value for point in HookPoint if point in SERVED]


@pytest.fixture
def ask(admin: Admin) -> Ask:
    """Asks the admin socket of the hook server."""
    return partial(admin, at="hookserver-admin.sock")


@pytest.fixture
def running(fake_node: FakeNodeStart, hookserver: Make) -> HookServer:
    """A hook server on a node with an LSR, a BE and an LS pod, after its first round."""
    fake_node(pods=3)
    server = hookserver()
    server.start()
    return server


def quotas(cgroups: Path) -> dict[str, int]:
    """CPU quotas of best-effort pods and of what is in them, on cgroup v1; 0 while one is being written."""
    return {
        str(path.parent.relative_to(cgroups)): int(path.read_text() or 0)
        for path in (cgroups / "cpu,cpuacct/kubepods/besteffort").rglob("cpu.cfs_quota_us")
    }


# -- the admin socket


def test_health(running: HookServer, ask: Ask) -> None:
    """All is well, and each question can be asked alone."""
    assert [ask(path) for path in ("/livez", "/healthz", "/readyz")] == [(200, "ok")] * 3
    for name in ("runtime", "registration", "nodeslo"):
        assert ask(f"/readyz/{name}?verbose") == (200, f"[+]{name} ok\nreadyz check passed\n")


def test_status(running: HookServer) -> None:
    """Who it is, what it sees, and how the last round went."""
    status = running.status()
    assert (status["pid"], status["mode"], status["cgroup_version"]) == (running.child.pid, "both", 1)
    assert status["listen"] == str(running.socket)
    assert status["registration"] == {"file": str(running.registration), "registered": True, "problem": ""}
    assert (status["runtime"]["up"], status["nodeslo"]["seen"], status["nodeslo"]["problems"]) == (True, True, [])
    assert {one["name"]: one["rule"] for one in status["plugins"]} == {
        "BatchResource": True,
        "CPUSetAllocator": True,
        "GroupIdentity": True,
    }
    last = status["round"]
    assert (last["pods"], last["wanted"], last["in_step"], last["errors"]) == (3, 15, True, [])
    assert status["journal_entries"] == 12
    assert (status["held"], status["refused_lately"]) == (0, [])


def test_values_with_reasons(running: HookServer, ask: Ask) -> None:
    """Everything that is wanted and why; asking changes nothing."""
    code, text = ask("/v1/values")
    found = [one for one in json.loads(text) if one["kind"] == "value"]
    assert (code, len(found), {one["action"] for one in found}) == (200, 15, {"keep"})
    assert all(one["why"] and one["plugin"] for one in found)


def test_rules(running: HookServer, ask: Ask) -> None:
    """What the rules are made of."""
    rules = json.loads(ask("/v1/rules")[1])
    assert set(rules["rules"]) == {"BatchResource", "CPUSetAllocator", "GroupIdentity"}
    assert (rules["problems"], "cpu.shares" in rules["kernel"]) == ({}, True)
    assert "2-31" in rules["pools"]


def test_config(running: HookServer, ask: Ask) -> None:
    """Every setting with its value."""
    config = json.loads(ask("/v1/config")[1])
    assert (config["listen"], config["plugins.cpuset"]) == (str(running.socket), True)


def test_log_level(running: HookServer, ask: Ask) -> None:
    """It can be changed while it runs; nonsense is refused."""
    assert json.loads(ask("/v1/log-level")[1]) == {"level": "info"}
    assert ask("/v1/log-level", "PUT", '{"level": "debug"}')[0] == 200
    assert running.status()["log_level"] == "debug"
    for body in ('{"level": "loud"}', "[]", "{"):
        assert ask("/v1/log-level", "PUT", body)[0] == 400


def test_what_there_is_not(running: HookServer, ask: Ask) -> None:
    """Unknown paths and methods are told apart."""
    assert (ask("/v1/nothing")[0], ask("/v1/status", "DELETE")[0], ask("/readyz/nothing")[0]) == (404, 405, 404)


def test_metrics_are_those_of_the_reference(running: HookServer, ask: Ask) -> None:
    """Every metric that is documented is there with its labels, and no other."""
    text = ask("/metrics")[1]
    shown = {name.removesuffix("_total") for name in re.findall(rf"^# TYPE ({PREFIX}\w+)", text, re.MULTILINE)}
    rows = re.findall(rf"^\| `({PREFIX}\w+)` \| (\w+) \| ([^|]*) \|", REFERENCE.read_text(), re.MULTILINE)
    assert {name.removesuffix("_total") for name, _, _ in rows} == shown
    samples = re.findall(rf"^({PREFIX}\w+?)(?:_bucket|_sum|_count)?(?:{{(.*)}})? ", text, re.MULTILINE)
    labels = {name: set(re.findall(r'(\w+)="', said)) - {"le"} for name, said in samples}
    documented = {name: set(re.findall(r"`(\w+)`", said)) for name, _, said in rows}
    seen = {name: labels[name] for name in documented if name in labels}
    assert seen == {name: documented[name] for name in seen}
    assert len(seen) > 10


def test_metrics_count(running: HookServer, ask: Ask) -> None:
    """What happened in the first round."""
    text = ask("/metrics")[1]
    assert f"{PREFIX}updates_total 3.0" in text
    assert f"{PREFIX}journal_entries 12.0" in text
    assert f"{PREFIX}pods 3.0" in text
    assert f'{PREFIX}writes_total{{outcome="ok",parameter="cpu.cfs_quota_us"}} 4.0' in text
    assert f'{PREFIX}plugin_up{{plugin="BatchResource"}} 1.0' in text


def test_without_an_admin_socket(fake_node: FakeNodeStart, hookserver: Make) -> None:
    """It can be turned off."""
    cgroups = fake_node(pods=3)
    server = hookserver("--admin-listen", "none")
    server.start_unready()
    server.child.wait_until(lambda: set(quotas(cgroups).values()) >= {50_100}, what="values")
    assert not server.admin.exists()


# -- readiness


def test_not_ready_without_the_runtime(hookserver: Make, memory: Path, runtime_path: Path, ask: Ask) -> None:
    """It lives, serves hooks and says what is missing."""
    write_cpus(memory / "sys", ["0-7"])
    PlainCgroups(memory / "cgroup", 1)
    server = hookserver()
    server.start_unready()
    server.child.wait_listening(server.admin)
    code, text = ask("/readyz")
    assert (code, ask("/livez")[0]) == (503, 200)
    assert "[-]runtime failed: No such file or directory" in text
    assert accepts(server.socket)
    assert server.registration.exists()


def test_not_ready_without_a_registration(fake_node: FakeNodeStart, hookserver: Make, scratch: Path, ask: Ask) -> None:
    """A directory that cannot be one: told, tried again, and well when it can be written to."""
    fake_node()
    (scratch / "place").write_text("")
    server = hookserver("--hooks-dir", str(scratch / "place" / "d"))
    server.start()
    code, text = ask("/readyz")
    assert code == 503
    assert f"[-]registration failed: file {scratch}/place/d/qos.json: Not a directory" in text
    assert server.status()["registration"]["registered"] is False
    (scratch / "place").unlink()
    wait_for(lambda: ask("/readyz")[0] == 200, what="the registration", every=0.05)
    assert (scratch / "place" / "d" / "qos.json").exists()


def test_nodeslo_that_cannot_be_used_keeps_the_last_good_one(running: HookServer, memory: Path, ask: Ask) -> None:
    """File, key and value are named, values stay; mending it ends that."""
    cgroups = memory / "cgroup"
    running.tell(TOGETHER)
    running.child.wait_until(lambda: set(quotas(cgroups).values()) == {-1}, what="quotas to go")
    broken = node_document()
    broken["nodeSLO"]["spec"]["resourceUsedThresholdWithBE"]["enable"] = "maybe"
    running.tell(broken)
    wait_for(lambda: ask("/readyz")[0] == 503, what="the complaint", every=0.02)
    text = ask("/readyz/nodeslo")[1]
    assert f"file {running.nodeslo}" in text
    assert "resourceUsedThresholdWithBE.enable" in text
    assert "'maybe'" in text
    assert running.status()["nodeslo"]["problems"]
    assert set(quotas(cgroups).values()) == {-1}
    running.tell(ALONE)
    running.child.wait_until(lambda: 50_100 in quotas(cgroups).values(), what="quotas to come back")
    assert ask("/readyz")[0] == 200


def test_nodeslo_that_comes_later(fake_node: FakeNodeStart, hookserver: Make, ask: Ask) -> None:
    """Without it what needs none is done; when it comes it counts."""
    cgroups = fake_node(pods=3)
    server = hookserver()
    server.start_unready()
    server.nodeslo.unlink()
    server.child.wait_listening(server.admin)
    wait_for(lambda: "does not exist" in ask("/readyz/nodeslo")[1], what="the complaint", every=0.02)
    server.child.wait_until(lambda: 50_100 in quotas(cgroups).values(), what="quotas")
    server.tell(TOGETHER)
    server.child.wait_until(lambda: set(quotas(cgroups).values()) == {-1}, what="quotas to go")


def test_edit_of_the_nodeslo_reaches_running_pods(
    running: HookServer, memory: Path, record_property: Callable[[str, object], None]
) -> None:
    """Soon, in both directions."""
    cgroups = memory / "cgroup"
    before = quotas(cgroups)
    for document, reached in (
        (TOGETHER, lambda: set(quotas(cgroups).values()) == {-1}),
        (ALONE, lambda: quotas(cgroups) == before),
    ):
        began = time.monotonic()
        running.tell(document)
        running.child.wait_until(reached, what="the values of the new rule")
        record_property("seconds", round(time.monotonic() - began, 3))


# -- registration


def test_registration_says_what_the_flags_say(fake_node: FakeNodeStart, hookserver: Make, scratch: Path) -> None:
    """Endpoint, policy, place among others, time and hook points."""
    fake_node()
    server = hookserver(
        *("--failure-policy", "Fail", "--priority", "7", "--hook-timeout", "3s"),
        *("--host-endpoint", "/host/run/qos.sock", "--registration-name", "mine"),
    )
    server.start()
    file = server.registration.with_name("mine.json")
    assert json.loads(file.read_text()) == {
        "remote-endpoint": "/host/run/qos.sock",
        "failure-policy": "Fail",
        "runtime-hooks": STAGES,
        "priority": 7,
        "timeout": "3s",
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_hook_points_that_are_not_served(fake_node: FakeNodeStart, hookserver: Make) -> None:
    """They are not registered."""
    fake_node()
    server = hookserver("--disable-stages", "PreRunPodSandbox,PreUpdateContainerResources")
    server.start()
    off = ("PreRunPodSandbox", "PreUpdateContainerResources")
    left = [name for name in STAGES if name not in off]
    assert "PreCreateContainer" in left
    assert json.loads(server.registration.read_text())["runtime-hooks"] == left


def test_fewer_plugins_fewer_hook_points(fake_node: FakeNodeStart, hookserver: Make) -> None:
    """Only what the plugins that are on want to be asked about."""
    fake_node()
    server = hookserver("--no-cpuset", "--no-batch-resource")
    server.start()
    left = json.loads(server.registration.read_text())["runtime-hooks"]
    assert left == ["PreRunPodSandbox", "PreCreateContainer"]


def test_registration_is_kept(running: HookServer) -> None:
    """Deleted or changed by somebody, it comes back."""
    text = running.registration.read_text()
    running.registration.unlink()
    running.child.wait_until(running.registration.exists, what="the file to come back")
    running.registration.write_text("{}")
    running.child.wait_until(lambda: running.registration.read_text() == text, what="its text to come back")


def test_standalone_neither_listens_nor_registers(fake_node: FakeNodeStart, hookserver: Make, ask: Ask) -> None:
    """It only watches."""
    cgroups = fake_node(pods=3)
    server = hookserver("--mode", "standalone")
    server.start()
    server.child.wait_until(lambda: 50_100 in quotas(cgroups).values(), what="quotas")
    assert not server.socket.exists()
    assert not server.registration.exists()
    assert ask("/readyz/registration")[0] == 404
    assert server.status()["listen"] is None


# -- what cannot be


def test_socket_in_use(running: HookServer, hookserver: Make, scratch: Path) -> None:
    """A second one gives up with the number of the first, which does not notice."""
    (scratch / "second").mkdir()
    second = hookserver("--listen", str(running.socket), folder=scratch / "second")
    done = second.single()
    assert done.returncode == FAILED
    assert f"error: --listen: socket {running.socket} is in use by PID {running.child.pid}" in done.stderr
    assert accepts(running.socket)
    assert running.status()["registration"]["registered"]
    assert not second.registration.exists()


def test_admin_socket_in_use(running: HookServer, hookserver: Make, scratch: Path) -> None:
    """It is named; the second one leaves no socket behind."""
    (scratch / "second").mkdir()
    second = hookserver("--admin-listen", str(running.admin), folder=scratch / "second")
    done = second.single()
    assert done.returncode == FAILED
    assert f"PID {running.child.pid}" in done.stderr
    assert not accepts(second.socket)


def test_second_one_cannot_have_the_journal(running: HookServer, hookserver: Make, scratch: Path) -> None:
    """Two that write the same values would undo each other: it ends before anything is served or registered."""
    (scratch / "second").mkdir()
    second = hookserver("--state-dir", str(running.state), folder=scratch / "second")
    done = second.single()
    assert done.returncode == FAILED
    assert f"journal {running.state}/hookserver.journal is in use by another process" in done.stderr
    assert not second.registration.exists()
    assert not second.socket.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--disable-stages", "PreLunch"],
            "flag --disable-stages: hooks.disable_stages: 'PreLunch' is not a hook point",
        ),
        (["--failure-policy", "Maybe"], "flag --failure-policy: 'Maybe' is not one of"),
        (["--admin-listen", "0.0.0.0:80"], "--admin-listen"),
        (["--config", "/nowhere.yaml"], "/nowhere.yaml"),
    ],
)
def test_settings_that_cannot_be_used(hookserver: Make, options: list[str], said: str) -> None:
    """78, before anything is bound."""
    server = hookserver(*options)
    done = server.single()
    assert (done.returncode, said in done.stderr) == (CONFIG, True), done.stderr
    assert not server.socket.exists()
    assert not server.registration.exists()


# -- the end


@pytest.mark.parametrize(("policy", "stays"), [("Ignore", False), ("Fail", True)])
def test_stopping_leaves_values(fake_node: FakeNodeStart, hookserver: Make, policy: str, *, stays: bool) -> None:
    """0, soon; pods keep what they have, and under Fail the registration stays."""
    cgroups = fake_node(pods=3)
    server = hookserver("--failure-policy", policy)
    server.start()
    server.child.wait_until(lambda: 50_100 in quotas(cgroups).values(), what="quotas")
    before = quotas(cgroups)
    server.child.signal(signal.SIGTERM)
    assert server.child.wait() == 0
    assert quotas(cgroups) == before
    assert (server.registration.exists(), server.socket.exists(), server.admin.exists()) == (stays, False, False)


# -- with the runtime in this process


@asynccontextmanager
async def node_here(memory: Path, scratch: Path) -> AsyncIterator[tuple[FakeNode, Mapping[str, FakeSandbox]]]:
    """A node with a BE and an LS pod, whose runtime nobody serves yet."""
    write_cpus(memory / "sys", ["0-7"])
    node = FakeNode(PlainCgroups(memory / "cgroup", 1))
    yield node, {"be": be_pod(node, "be"), "ls": ls_pod(node, "ls")}


async def create(server: HookServer) -> Any:
    """Ask as a relay does when a container of a BE pod is created: what shall its resources be?"""
    spec = {"main": {"limits": {"kubernetes.io/batch-cpu": "500"}, "requests": {"kubernetes.io/batch-cpu": "500"}}}
    message = hook.ContainerResourceHookRequest(
        pod_meta=hook.PodSandboxMetadata(name="new", namespace="default", uid="7"),
        container_meta=hook.ContainerMetadata(name="main"),
        pod_labels={"koordinator.sh/qosClass": "BE"},
        pod_annotations={"node.koordinator.sh/extended-resource-spec": json.dumps({"containers": spec})},
        pod_cgroup_parent="/kubepods/besteffort/pod7",
    )
    async with grpc_channel(server.socket) as channel:
        path = HookPoint.PRE_CREATE_CONTAINER.rpc.decode()
        answer = await channel.unary_unary(path)(message.SerializeToString(), timeout=WAIT_LIMIT)
        return hook.ContainerResourceHookResponse.FromString(answer).container_resources


async def test_rule_that_changes_while_the_runtime_is_away(scratch: Path, memory: Path, hookserver: Make) -> None:
    """Hooks go by it at once, pods when the runtime is back."""
    server = hookserver()
    cgroups = memory / "cgroup"
    async with node_here(memory, scratch) as (node, _):
        async with serve_runtime(scratch / "runtime.sock", node.runtime):
            await asyncio.to_thread(server.start)
            await eventually(lambda: set(quotas(cgroups).values()) >= {100_000}, "quotas")
        assert (await create(server)).cpu_quota == 50_000
        server.tell(TOGETHER)
        async with asyncio.timeout(WAIT_LIMIT):
            while (await create(server)).cpu_quota != -1:
                pass
        container = next(path for path in quotas(cgroups) if path.count("/") == 4 and quotas(cgroups)[path] == 100_000)
        async with serve_runtime(scratch / "runtime.sock", node.runtime):
            await eventually(lambda: quotas(cgroups)[container] == -1, "the container to follow")
        await asyncio.to_thread(server.stop)


async def test_pod_that_appears(scratch: Path, memory: Path, hookserver: Make) -> None:
    """Its cgroup is noticed: nobody waits for the next tick."""
    server = hookserver("--mode", "standalone", "--reconcile-interval", "10m")
    async with node_here(memory, scratch) as (node, _), serve_runtime(scratch / "runtime.sock", node.runtime):
        await asyncio.to_thread(server.start)
        late = be_pod(node, "late", batch_cpu=700)
        place = f"cpu,cpuacct/{node.directory(late.containers[0])}"
        await eventually(lambda: quotas(memory / "cgroup")[place] == 70_000, "the values of a new pod")
        await asyncio.to_thread(server.stop)


async def test_stopping_while_the_runtime_hangs(scratch: Path, memory: Path, hookserver: Make) -> None:
    """A call that does not return holds nothing up."""
    server = hookserver()
    async with node_here(memory, scratch) as (node, _), serve_runtime(scratch / "runtime.sock", node.runtime):
        stall = node.runtime.stall("UpdateContainerResources")
        server.start_unready()
        await node.runtime.wait_for_calls("UpdateContainerResources")
        server.child.signal(signal.SIGTERM)
        assert await asyncio.to_thread(server.child.wait) == 0
        stall.release()


async def test_only_those_who_are_let_in_may_ask(scratch: Path, memory: Path, hookserver: Make) -> None:
    """Users by number; then nobody else is, not even root."""
    server = hookserver("--allow-uids", "12345")
    async with node_here(memory, scratch) as (node, _), serve_runtime(scratch / "runtime.sock", node.runtime):
        await asyncio.to_thread(server.start)
        with pytest.raises(grpc.RpcError) as refused:
            await create(server)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        await asyncio.to_thread(server.stop)


# -- size


def test_many_pods(
    fake_node: FakeNodeStart,
    hookserver: Make,
    record_property: Callable[[str, object], None],
) -> None:
    """A round over 200 pods in which nothing changed is cheap (`make bench` measures one over 500)."""
    fake_node(pods=200, version="v1")
    server = hookserver("--reconcile-interval", "1s")
    server.start()

    def settled() -> Any:
        last = server.status()["round"]
        return last if last["reason"] == "tick" and last["written"] == 0 and last["pods"] == 200 else None

    last = server.child.wait_until(settled, what="a round with nothing to do", every=0.1)
    record_property("cpu_seconds", last["cpu_seconds"])
    record_property("seconds", last["seconds"])
    print(f"200 pods: {last['cpu_seconds'] * 1000:.0f} ms CPU, {last['wanted']} values")
    assert last["as_wanted"] == last["wanted"] > 800
    assert last["cpu_seconds"] < 2
