"""Rounds of the hook server on a fake node whose kernel has the rules of a real one, cgroup v1 and v2.

The wiring is that of the product: the runtime is on a socket, journal and NodeSLO are files. Only cgroups are fake.
"""

import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cgroup import CLEAR, UNLIMITED, KubeQos, Level, Parameter
from interpose.core.model.qos import QOS_LABEL
from interpose.core.model.resources import LinuxResources
from interpose.hooks.server.context import ContainerContext, PodContext, Wish
from interpose.hooks.server.evaluate import PluginFailure, PluginResults
from interpose.hooks.server.plugin import NodeInputs, Plugin
from interpose.hooks.server.plugins.batch_resource import BatchResource, BatchRule
from interpose.hooks.server.pods.pod_annotations import EXTENDED_RESOURCES, MANAGED, OOM_SCORE
from interpose.hooks.server.proxy.side_effects import ProxyEffects
from interpose.hooks.server.reconcile.original_values import ANNOTATION
from interpose.host.cgroup.parameters import weight_of
from interpose.net.grpc.status import Code
from interpose.testing import pods
from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.qospods import GIB, be_pod, ls_pod, lsr_pod
from interpose.testing.runtime.state import FakeSandbox
from tests.support.hooks.node import HookNode, hook_node

SHARES, QUOTA, MEMORY = Parameter.CPU_SHARES, Parameter.CPU_QUOTA, Parameter.MEMORY_LIMIT
CPUS, BVT, IDLE = Parameter.CPUSET_CPUS, Parameter.CPU_BVT, Parameter.CPU_IDLE
UPDATE = "UpdateContainerResources"
MIB = 1 << 20
Start = Callable[..., AbstractAsyncContextManager[HookNode]]


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def version(request: pytest.FixtureRequest) -> int:
    """Of the cgroups."""
    number: int = request.param
    return number


@pytest.fixture
def start(scratch: Path, version: int) -> Start:
    """Makes a node with a hook server; settings of plugins are keywords."""

    def make(**options: Any) -> AbstractAsyncContextManager[HookNode]:
        return hook_node(scratch, version, **options)

    return make


@pytest.fixture
async def hooked(start: Start) -> AsyncIterator[HookNode]:
    """A node with the plugins that are on by default."""
    async with start() as node:
        yield node


def batch(**containers: tuple[int, int, int]) -> dict[str, str]:
    """The annotation of a pod with batch resources: request and limit of CPU and limit of memory, by container."""

    def one(request: int, limit: int, memory: int) -> dict[str, Any]:
        limits = {"kubernetes.io/batch-cpu": limit, "kubernetes.io/batch-memory": memory}
        return {"requests": {"kubernetes.io/batch-cpu": request}, "limits": limits if limit else {}}

    return {EXTENDED_RESOURCES: json.dumps({"containers": {name: one(*said) for name, said in containers.items()}})}


def cpu_and_memory(node: HookNode, directory: str) -> tuple[str, str, str]:
    """Weight, quota and memory limit of a cgroup, as its files have them."""
    names = {
        1: ("cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes"),
        2: ("cpu.weight", "cpu.max", "memory.max"),
    }
    shares, quota, memory = (node.kernel.get(directory, name) for name in names[node.kernel.version])
    return shares, quota, memory


def as_files(node: HookNode, shares: int, quota: int, memory: int) -> tuple[str, str, str]:
    """What the files have for these values; -1 is no limit."""
    if node.kernel.version == 1:
        return str(shares), str(quota), str(memory if memory >= 0 else (1 << 63) - 4096)
    return str(weight_of(shares)), f"{'max' if quota < 0 else quota} 100000", "max" if memory < 0 else str(memory)


def directories(node: HookNode, sandbox: FakeSandbox) -> list[str]:
    """The cgroup of a pod and those of its containers."""
    return [node.node.pod_directory(sandbox), *map(node.node.directory, sandbox.containers)]


def updates(node: HookNode) -> int:
    """How often a container was updated through the runtime."""
    return node.node.runtime.calls[UPDATE]


# -- values


async def test_batch_pod_gets_what_its_annotation_says(hooked: HookNode) -> None:
    """Shares, quota and memory limit of pod and containers; the pod has the sum."""
    said = batch(a=(500, 1000, GIB), b=(250, 500, 512 * MIB))
    pod = be_pod(hooked.node, "be", containers=("a", "b"), annotations=said)
    done = await hooked.round()
    assert (done.errors, hooked.kernel.refused) == ([], [])
    assert [cpu_and_memory(hooked, one) for one in directories(hooked, pod)] == [
        as_files(hooked, 768, 150_000, 1_610_612_736),
        as_files(hooked, 512, 100_000, GIB),
        as_files(hooked, 256, 50_000, 512 * MIB),
    ]


async def test_batch_container_without_limits_lifts_those_of_its_pod(hooked: HookNode) -> None:
    """One without a limit: the pod has none either."""
    said = batch(a=(500, 1000, GIB), b=(250, 0, 0))
    pod = be_pod(hooked.node, "be", containers=("a", "b"), annotations=said)
    await hooked.round()
    assert [cpu_and_memory(hooked, one) for one in directories(hooked, pod)] == [
        as_files(hooked, 768, -1, -1),
        as_files(hooked, 512, 100_000, GIB),
        as_files(hooked, 256, -1, -1),
    ]


async def test_best_effort_pods_limited_together_have_no_quotas(hooked: HookNode) -> None:
    """The policy cfsQuota takes quotas away and leaves the rest; switching it off brings them back."""
    said = batch(a=(500, 1000, GIB), b=(250, 500, 512 * MIB))
    pod = be_pod(hooked.node, "be", containers=("a", "b"), annotations=said)
    await hooked.round()
    with_quotas = hooked.files()
    hooked.slo(cfs_quota=True)
    await hooked.round()
    assert [cpu_and_memory(hooked, one) for one in directories(hooked, pod)] == [
        as_files(hooked, 768, -1, 1_610_612_736),
        as_files(hooked, 512, -1, GIB),
        as_files(hooked, 256, -1, 512 * MIB),
    ]
    hooked.slo(cfs_quota=False)
    await hooked.round()
    assert hooked.files() == with_quotas
    assert hooked.kernel.refused == []


async def test_group_identity_of_pods_and_directories(start: Start) -> None:
    """2 for LSR and LS, -1 for BE; directories 0, 2 and -1, and the switch of the node is on."""
    async with start(bvt=True) as node:
        made = [lsr_pod(node.node, "lsr"), ls_pod(node.node, "ls"), be_pod(node.node, "be")]
        node.slo(identity=True)
        await node.round()
        assert [node.of_pod(pod, BVT) for pod in made] == [2, 2, -1]
        classes = [node.node.layout.qos_directory(qos) for qos in KubeQos]
        assert [node.node.tree.read(one, BVT) for one in classes] == [0, 2, -1]
        assert node.kernel.read(f"{node.kernel.proc}/sys/kernel/sched_group_identity_enabled").strip() == "1"


async def test_cpus_by_class(hooked: HookNode) -> None:
    """LSR has its own without a quota, LS shares the rest, BE has what its parent has."""
    lsr, ls, be = lsr_pod(hooked.node, "lsr"), ls_pod(hooked.node, "ls"), be_pod(hooked.node, "be")
    await hooked.round()
    assert (hooked.of_container(lsr, CPUS), hooked.of_sandbox(lsr, CPUS)) == ("2-3", "2-3")
    assert (hooked.of_container(lsr, QUOTA), hooked.of_pod(lsr, QUOTA)) == (UNLIMITED, UNLIMITED)
    assert (hooked.of_container(ls, CPUS), hooked.of_sandbox(ls, CPUS)) == ("0-1,4-7", "0-1,4-7")
    assert hooked.of_container(ls, QUOTA) == 100_000
    assert hooked.of_container(be, CPUS) == ("0-7" if hooked.kernel.version == 1 else CLEAR)


async def test_systemd_names(start: Start) -> None:
    """Slices and scopes are found as well."""
    async with start(systemd=True) as node:
        pod = be_pod(node.node, "be")
        await node.round()
        assert node.of_container(pod, QUOTA) == 100_000


async def test_container_that_does_not_run_yet(hooked: HookNode) -> None:
    """It has no cgroup; the runtime is told beforehand, so its first process has the values."""
    pod = be_pod(hooked.node, "be", annotations=batch(main=(500, 1000, GIB), late=(250, 500, GIB)))
    state, image = hooked.node.runtime.state, hooked.node.runtime.images.pull(pods.BUSYBOX, cri.AuthConfig())
    late = state.create_container(pod, pods.container_config(pod.config, "late"), image)
    done = await hooked.round()
    assert done.errors == []
    state.start_container(late)
    assert cpu_and_memory(hooked, hooked.node.directory(late.id)) == as_files(hooked, 256, 50_000, GIB)
    assert (await hooked.round()).written == 0


# -- order


async def test_quotas_lowered_and_raised_in_an_order_the_kernel_takes(hooked: HookNode) -> None:
    """Containers before their pod when less is given, after it when more is: nothing is ever refused."""
    pod = be_pod(hooked.node, "be", containers=("a", "b"), batch_cpu=1000)
    hooked.slo(ratio=1.0)
    await hooked.round()
    pod_file, *container_files = [_quota_file(hooked, one) for one in directories(hooked, pod)]
    for ratio, quotas in ((2.0, [100_000, 50_000, 50_000]), (1.0, [200_000, 100_000, 100_000])):
        hooked.slo(ratio=ratio)
        hooked.kernel.writes.clear()
        await hooked.round()
        assert [hooked.node.tree.read(one, QUOTA) for one in directories(hooked, pod)] == quotas
        written = [path for path, _ in hooked.kernel.writes]
        lowered = ratio > 1
        assert {one for one in written if one == pod_file or one in container_files} == {pod_file, *container_files}
        assert all((written.index(one) < written.index(pod_file)) is lowered for one in container_files)
    assert hooked.kernel.refused == []


def _quota_file(node: HookNode, directory: str) -> str:
    return node.kernel.path(directory, "cpu.cfs_quota_us" if node.kernel.version == 1 else "cpu.max")


async def test_pools_follow_pods_with_cpus_of_their_own(hooked: HookNode) -> None:
    """Running LS containers are updated through the runtime when one arrives, and again when it leaves."""
    first, second = ls_pod(hooked.node, "first"), ls_pod(hooked.node, "second")
    await hooked.round()
    assert hooked.of_container(first, CPUS) == "0-7"
    lsr = lsr_pod(hooked.node, "lsr", cpuset="4-5")
    await hooked.round()
    runtime = hooked.node.runtime
    for pod in (first, second):
        assert (hooked.of_container(pod, CPUS), hooked.of_sandbox(pod, CPUS)) == ("0-3,6-7", "0-3,6-7")
        assert runtime.containers[pod.containers[0]].resources.cpuset_cpus == "0-3,6-7"
    runtime.state.remove_sandbox(lsr)
    await hooked.round()
    assert [hooked.of_container(pod, CPUS) for pod in (first, second)] == ["0-7", "0-7"]
    assert hooked.kernel.refused == []


class Places(Plugin[tuple[str, str]]):
    """Puts pods and containers on CPUs it is told."""

    name: ClassVar[str] = "Places"
    serves: ClassVar[Mapping[Level, frozenset[Parameter]]] = MappingProxyType(
        {Level.POD: frozenset((CPUS,)), Level.CONTAINER: frozenset((CPUS,)), Level.SANDBOX: frozenset((CPUS,))}
    )

    def __init__(self) -> None:
        self.now = ("0-3", "0-1")

    def rule(self, node: NodeInputs, previous: tuple[str, str] | None) -> tuple[str, str]:
        """Of the pod, and of what is in it."""
        return self.now

    def pod(self, rule: tuple[str, str], context: PodContext) -> None:
        """As told."""
        context.response.set(CPUS, rule[0], "")

    def container(self, rule: tuple[str, str], context: ContainerContext) -> None:
        """As told."""
        context.response.set(CPUS, rule[1], "")


async def test_cpus_of_pod_and_containers_move_together(start: Start) -> None:
    """Wider, narrower, elsewhere, in part elsewhere: a child never has what its parent has not."""
    plugin = Places()
    async with start(plugins=[plugin]) as node:
        pod = ls_pod(node.node, "ls", containers=("a", "b"))
        before = node.files()
        for now in (("0-3", "0-1"), ("0-5", "5"), ("4-5", "4"), ("6-7", "6-7"), ("1-6", "6"), ("0-7", "0-7")):
            plugin.now = now
            done = await node.round()
            assert done.errors == []
            assert (node.of_pod(pod, CPUS), node.of_container(pod, CPUS)) == now
        await node.off()
        assert node.files() == before
        assert node.kernel.refused == []


# -- what kernel and runtime refuse


async def test_memory_in_use_is_waited_for(start: Start, version: int) -> None:
    """A limit below the usage is refused, told, not tried at every turn, and in place when the usage has fallen."""
    if version == 2:
        pytest.skip("cgroup v2 takes any limit, and ends processes")
    async with start() as node:
        busy, other = be_pod(node.node, "busy"), be_pod(node.node, "other")
        pod, container = directories(node, busy)
        node.kernel.usage.update({pod: 2 * GIB, container: 2 * GIB})
        done = await node.round()
        assert len(done.errors) == 2
        assert all("busy" in error for error in done.errors)
        assert node.parts.applier.held > 0
        assert {one.parameter for one in node.parts.applier.last_errors} >= {MEMORY}
        assert node.of_container(other, MEMORY) == GIB
        tried = updates(node), len(node.kernel.refused)
        again = await node.round(detail=True)
        assert {item.target.name for item in again.items if item.action == "held"} == {
            "default/busy",
            "default/busy/main",
        }
        assert (updates(node), len(node.kernel.refused)) == tried
        node.kernel.usage.update({pod: MIB, container: MIB})
        while node.parts.applier.held:  # the hold ends by the clock
            await node.round()
        assert (node.of_pod(busy, MEMORY), node.of_container(busy, MEMORY)) == (GIB, GIB)


async def test_update_that_the_runtime_refuses(hooked: HookNode) -> None:
    """It is told and held; other containers get theirs, and what the kernel is told is not held up."""
    first, second = be_pod(hooked.node, "first"), be_pod(hooked.node, "second")
    hooked.node.runtime.fail(UPDATE, Code.INTERNAL, "no", times=1)
    done = await hooked.round()
    assert len(done.errors) == 1
    assert "INTERNAL: no" in done.errors[0]
    assert {hooked.of_pod(pod, QUOTA) for pod in (first, second)} == {100_000}
    assert sorted(str(hooked.of_container(pod, QUOTA)) for pod in (first, second)) == ["100000", "unlimited"]


async def test_cgroups_that_go_away_in_the_middle_of_a_round(hooked: HookNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that ends between looking and writing is no error, and nothing of it stays in the journal."""
    going, staying = be_pod(hooked.node, "going"), be_pod(hooked.node, "staying")
    write, state = hooked.kernel.write, hooked.node.runtime.state

    def remove_first(path: str, text: str) -> None:
        monkeypatch.setattr(hooked.kernel, "write", write)
        state.remove_sandbox(going)
        hooked.kernel.write(path, text)

    monkeypatch.setattr(hooked.kernel, "write", remove_first)
    done = await hooked.round()
    assert done.errors == []
    assert hooked.of_container(staying, QUOTA) == 100_000
    await hooked.round()
    names = [hooked.parts.journal.target_of(*one) for one in hooked.parts.journal.targets()]
    assert {one.name.split("/")[1] for one in names if one is not None} == {"staying"}


async def test_drift_is_put_right_through_the_runtime(hooked: HookNode) -> None:
    """Somebody writes to the files of a pod and of its container."""
    pod = be_pod(hooked.node, "be")
    await hooked.round()
    sent = updates(hooked)
    for directory in directories(hooked, pod):
        hooked.node.tree.write(directory, SHARES, 77)
    done = await hooked.round()
    assert done.written == 2
    assert [cpu_and_memory(hooked, one)[0] for one in directories(hooked, pod)] == [as_files(hooked, 1024, 0, 0)[0]] * 2
    assert updates(hooked) == sent + 1
    assert hooked.parts.applier.drift == {("BatchResource", SHARES): 2}


async def test_update_by_somebody_else_is_the_new_original(start: Start) -> None:
    """A quota that the kubelet changes is scaled anew, and is what comes back when nobody wants ours."""
    async with start(cpu_normalization=True) as node:
        pod = ls_pod(node.node, "ls", cpu_limit=1000)
        node.slo(ratio=1.25)
        await node.round()
        assert node.of_container(pod, QUOTA) == 80_000
        fresh = cri.LinuxContainerResources(cpu_quota=50_000, cpu_period=100_000)
        await node.node.runtime.call(
            UPDATE, cri.UpdateContainerResourcesRequest(container_id=pod.containers[0], linux=fresh)
        )
        await node.round()
        assert node.of_container(pod, QUOTA) == 40_000
        await node.off()
        assert node.of_container(pod, QUOTA) == 50_000


# -- the runtime away


async def test_rule_that_changes_while_the_runtime_is_away(hooked: HookNode) -> None:
    """Rules follow at once; containers are changed when it is back."""
    pod = be_pod(hooked.node, "be")
    await hooked.round()
    await hooked.runtime_down()
    hooked.slo(cfs_quota=True)
    done = await hooked.round()
    assert not done.listed
    assert hooked.parts.reconciler.rules.by_plugin["BatchResource"] == BatchRule(quota=False)
    assert hooked.of_container(pod, QUOTA) == 100_000
    await hooked.runtime_up()

    def lifted() -> bool:
        return hooked.of_container(pod, QUOTA) is UNLIMITED

    while not lifted():  # what could not be sent is held for a moment
        await hooked.round()
    assert hooked.of_pod(pod, QUOTA) is UNLIMITED


async def test_pods_are_not_taken_for_gone_while_the_runtime_is_away(hooked: HookNode) -> None:
    """A hook server that starts without the runtime keeps its journal, and restores when it is there."""
    pod = be_pod(hooked.node, "be")
    before = hooked.files()
    await hooked.round()
    entries = len(hooked.parts.journal)
    await hooked.runtime_down()
    done = await hooked.off()
    assert (done.listed, len(hooked.parts.journal)) == (False, entries)
    assert hooked.of_pod(pod, QUOTA) == 100_000
    await hooked.runtime_up()
    assert (await hooked.round()).errors == []
    assert hooked.files() == before


# -- whom it concerns


async def test_pod_that_opts_out_is_restored(hooked: HookNode) -> None:
    """With the label it goes back to what it had, and the others do not."""
    left, kept = be_pod(hooked.node, "left"), be_pod(hooked.node, "kept")
    before = {one: cpu_and_memory(hooked, one) for one in directories(hooked, left)}
    await hooked.round()
    left.config.labels[MANAGED] = "false"
    await hooked.start()
    await hooked.round()
    assert {one: cpu_and_memory(hooked, one) for one in directories(hooked, left)} == before
    assert hooked.of_container(kept, QUOTA) == 100_000


async def test_plugin_that_fails_for_one_pod(start: Start) -> None:
    """What it had set there stays; other pods and other plugins go on."""
    async with start(bvt=True) as node:
        broken, fine = ls_pod(node.node, "broken"), ls_pod(node.node, "fine")
        node.slo(identity=True)
        await node.round()
        broken.config.annotations["koordinator.sh/cpuQOS"] = '{"enable":true,"groupIdentity":3}'
        lsr_pod(node.node, "lsr")
        await node.start()
        done = await node.round()
        assert [(one.target.name, one.failure.plugin) for one in done.desired_state.problems] == [
            ("default/broken", "GroupIdentity")
        ]
        assert "found '3'" in done.desired_state.problems[0].failure.text
        assert (node.of_pod(broken, BVT), node.of_pod(fine, BVT)) == (2, 2)
        assert {node.of_container(pod, CPUS) for pod in (broken, fine)} == {"0-1,4-7"}
        node.slo(identity=False)
        await node.round()
        assert (node.of_pod(fine, BVT), node.of_pod(broken, BVT)) == (0, 0)


async def test_pool_that_runs_empty_leaves_containers_where_they_are(hooked: HookNode) -> None:
    """Nobody can share nothing: LS containers keep the CPUs they had, and get new ones when there are some."""
    ls, first = ls_pod(hooked.node, "ls"), lsr_pod(hooked.node, "first", cpuset="0-3")
    await hooked.round()
    second = lsr_pod(hooked.node, "second", cpuset="4-7")
    done = await hooked.round()
    assert {one.failure.plugin for one in done.desired_state.problems} == {"CPUSetAllocator"}
    assert hooked.of_container(ls, CPUS) == "4-7"
    assert hooked.of_container(second, CPUS) == "4-7"
    hooked.node.runtime.state.remove_sandbox(first)
    await hooked.round()
    assert hooked.of_container(ls, CPUS) == "0-3"


class Moody(BatchResource):
    """As the real one, but it raises where it is told to."""

    def __init__(self) -> None:
        self.fails_for = ""

    def pod(self, rule: BatchRule, context: PodContext) -> None:
        """Raise, or not."""
        self._maybe(context.request.name)
        super().pod(rule, context)

    def container(self, rule: BatchRule, context: ContainerContext) -> None:
        """Raise, or not."""
        self._maybe(context.pod.name)
        super().container(rule, context)

    def _maybe(self, name: str) -> None:
        if name == self.fails_for:
            raise RuntimeError("no idea")


async def test_values_from_the_creation_stay_when_a_plugin_fails(start: Start) -> None:
    """What a container was created with is known by its annotation only; a failure is no reason to take it away."""
    plugin = Moody()
    plugin.fails_for = "be"
    async with start(plugins=[plugin]) as node:
        pod = be_pod(node.node, "be", containers=())
        given = cri.LinuxContainerResources(cpu_period=100_000, cpu_shares=1024, cpu_quota=100_000)
        note = json.dumps({"cpu_shares": [2, 1024], "cpu_quota": [0, 100_000]})
        config = pods.container_config(pod.config, "main", resources=given, annotations={ANNOTATION: note})
        state, image = node.node.runtime.state, node.node.runtime.images.pull(pods.BUSYBOX, cri.AuthConfig())
        state.start_container(state.create_container(pod, config, image))
        done = await node.round()
        assert done.desired_state.problems
        assert cpu_and_memory(node, directories(node, pod)[1])[:2] == as_files(node, 1024, 100_000, 0)[:2]


def effects_of(node: HookNode) -> ProxyEffects:
    """What hook calls do besides answering, with the parts of this node."""
    parts = node.parts
    return ProxyEffects(
        plugins=parts.plugins,
        rules=lambda: parts.reconciler.rules,
        runner=parts.runner,
        inventory=parts.inventory,
        applier=parts.applier,
        journal=parts.journal,
        sync=parts.sync,
        remove_pod_state=lambda _uid: None,
        pools_changed=lambda: None,
    )


async def test_hook_call_without_a_plugin_that_failed(start: Start) -> None:
    """Files that this plugin wrote for the pod stay as they are; those of others are written."""
    async with start(bvt=True) as node:
        pod = be_pod(node.node, "be")
        node.slo(identity=True)
        await node.round()
        wishes = {SHARES: ("BatchResource", Wish(4096, ""))}
        verdict = PluginResults(values=wishes, failures=[PluginFailure("GroupIdentity", "no idea")])
        await effects_of(node).write_pod_files(node.parts.store.pods[pod.id], verdict)
        assert node.of_pod(pod, BVT) == -1
        assert node.kernel.get(node.node.pod_directory(pod), _weight(node)) == as_files(node, 4096, 0, 0)[0]


def _weight(node: HookNode) -> str:
    return "cpu.shares" if node.kernel.version == 1 else "cpu.weight"


async def test_update_without_a_plugin_that_failed(hooked: HookNode) -> None:
    """Limits it had set are not lifted because nobody can say what it wants; those nobody wants are."""
    pod = be_pod(hooked.node, "be")
    await hooked.round()
    store = hooked.parts.store
    record, container = store.pods[pod.id], store.containers[pod.containers[0]]
    asked = replace(container, requested=LinuxResources(cpu_shares=2))
    failed = PluginResults(failures=[PluginFailure("BatchResource", "no idea")])
    answer = await effects_of(hooked).on_update(record, asked, failed)
    assert answer.values == {}
    answer = await effects_of(hooked).on_update(record, asked, PluginResults())
    assert {parameter: wish.value for parameter, (_, wish) in answer.values.items()} == {
        SHARES: 2,
        QUOTA: UNLIMITED,
        MEMORY: UNLIMITED,
    }


class Hanging(Plugin[int]):
    """Wants shares of pods; at one pod it does not return until it is let."""

    name: ClassVar[str] = "Hanging"
    serves: ClassVar[Mapping[Level, frozenset[Parameter]]] = MappingProxyType({Level.POD: frozenset((SHARES,))})

    def __init__(self) -> None:
        self.hangs = False
        self.version = 1
        self.let = threading.Event()

    def rule(self, node: NodeInputs, previous: int | None) -> int:
        """Any; another one has everything computed anew."""
        return self.version

    def pod(self, rule: int, context: PodContext) -> None:
        """Hang, or not."""
        if self.hangs and context.request.name == "slow":
            self.let.wait(WAIT_LIMIT)
        context.response.set(SHARES, 4096, "")


async def test_plugin_that_hangs_is_left_out(start: Start) -> None:
    """The round ends without it, other plugins have their way, and what it had set stays."""
    plugin = Hanging()
    async with start(plugins=[plugin, BatchResource()], timeout=1.0) as node:
        slow, batch_pod = ls_pod(node.node, "slow"), be_pod(node.node, "be")
        await node.round()
        had = cpu_and_memory(node, node.node.pod_directory(slow))
        assert had[0] == as_files(node, 4096, 0, 0)[0]
        plugin.hangs, plugin.version = True, 2
        node.slo(cfs_quota=True)
        try:
            done = await node.round()
        finally:
            plugin.let.set()
        assert list(node.parts.runner.suspended) == ["Hanging"]
        assert {one.failure.plugin for one in done.desired_state.problems} == {"Hanging"}
        assert cpu_and_memory(node, node.node.pod_directory(slow)) == had
        assert node.of_container(batch_pod, QUOTA) is UNLIMITED


async def test_conflicts_are_told(start: Start) -> None:
    """Two plugins want other shares of a pod: the later one has it, and both are named."""
    async with start(group_identity_fallback="shares") as node:
        pod = be_pod(node.node, "be")
        node.slo(identity=True)
        done = await node.round()
        assert [(one.target.name, one.parameter, one.loser, one.winner) for one in done.desired_state.conflicts] == [
            ("default/be", SHARES, "BatchResource", "GroupIdentity")
        ]
        assert cpu_and_memory(node, node.node.pod_directory(pod))[0] == as_files(node, 2, 0, 0)[0]


# -- back to what was


async def test_everything_on_and_off_again(start: Start) -> None:
    """With every plugin that this kernel can serve: not a byte is different afterwards."""
    async with start(bvt=True, cpu_normalization=True, oom_score=True) as node:
        for name in ("a", "b", "c"):
            be_pod(node.node, f"be-{name}", containers=("one", "two"), annotations={OOM_SCORE: "900"})
            ls_pod(node.node, f"ls-{name}")
        lsr_pod(node.node, "lsr", cpuset="4-5")
        node.node.add(pods.pod_config("none", labels={QOS_LABEL: "BE"}, qos="besteffort"))
        before = node.files()
        node.slo(identity=True, cfs_quota=True, ratio=1.2)
        done = await node.round()
        assert (done.errors, done.desired_state.problems) == ([], ())
        assert node.files() != before
        node.slo(identity=True, ratio=1.4)
        await node.round()
        assert (await node.off()).errors == []
        assert node.files() == before
        assert len(node.parts.journal) == 0


@pytest.mark.parametrize("fallback", ["idle", "shares"])
async def test_kernel_without_bvt(start: Start, fallback: str) -> None:
    """BE pods are put behind by other means, and switching the rule off gives their shares back."""
    async with start(group_identity_fallback=fallback) as node:
        be, ls = be_pod(node.node, "be"), ls_pod(node.node, "ls")
        await node.round()
        batch_only = node.files()
        node.slo(identity=True)
        await node.round()
        idle = fallback == "idle"
        assert (node.of_pod(be, IDLE), node.of_pod(ls, IDLE)) == (int(idle), 0)
        assert (await node.round()).written == 0
        node.slo(identity=False)
        await node.round()
        assert node.files() == batch_only
        assert node.kernel.refused == []


async def test_restart_is_not_noticed(hooked: HookNode) -> None:
    """Another process with the same journal finds everything as it wants it."""
    be_pod(hooked.node, "be")
    lsr_pod(hooked.node, "lsr")
    ls_pod(hooked.node, "ls")
    await hooked.round()
    writes, sent = len(hooked.kernel.writes), updates(hooked)
    await hooked.start()
    done = await hooked.round()
    assert (done.written, len(hooked.kernel.writes), updates(hooked)) == (0, writes, sent)
