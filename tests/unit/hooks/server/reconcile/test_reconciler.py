"""Rounds over a fake node: what they look at, what they leave alone, and what going wrong leads to."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter, Value
from interpose.core.model.pod import Pod
from interpose.core.model.qos import QosClass
from interpose.hooks.server.entry_points import UnusablePlugin
from interpose.hooks.server.node.node_inputs import NodeSnapshot
from interpose.hooks.server.node.nodeslo import HostApplication, NodeSLO
from interpose.hooks.server.node.relay_policy import Ownership
from interpose.hooks.server.plugin import AnyPlugin, NodeInputs
from interpose.hooks.server.pods.kubelet_client import MetadataOverlay
from interpose.hooks.server.reconcile.original_values import ANNOTATION
from interpose.hooks.server.reconcile.plan import PlanAction
from interpose.hooks.server.reconcile.reconciler import ReconcilePass, Reconciler
from interpose.hooks.server.targets import ActuatorTarget
from interpose.hooks.server.worker_threads import Runner
from interpose.net.grpc.status import Code
from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.fakenode import FakeNode
from interpose.testing.kernel.cgroup import FakeKernel
from interpose.testing.pods import BUSYBOX, container_config
from interpose.testing.qospods import be_pod, ls_pod
from interpose.testing.runtime.state import FakeContainer, FakeSandbox
from tests.support.hooks.parts import HookParts, ToyPlugin

SHARES, QUOTA, BURST, CPUS = Parameter.CPU_SHARES, Parameter.CPU_QUOTA, Parameter.CPU_BURST, Parameter.CPUSET_CPUS
UPDATE = "UpdateContainerResources"


class Rig:
    """A reconciler over a node, with two plugins that want what a test says."""

    def __init__(self, node: FakeNode | None = None, plugins: Sequence[AnyPlugin] | None = None) -> None:
        self.toy, self.other = ToyPlugin(), ToyPlugin("other")
        self.parts = HookParts(node, plugins=[self.toy, self.other] if plugins is None else plugins)
        self.inputs = NodeInputs()
        self.gathered: list[list[str]] = []  # names of the pods, each time
        self.unmanaged: set[str] = set()
        self.facts: Callable[[Pod], Pod] = lambda pod: pod
        self.facts_known = True
        self.complete = True
        self.owned = Ownership()
        self.reconciler = Reconciler(
            plugins=self.parts.plugins,
            sync=self.parts.sync,
            inventory=self.parts.inventory,
            applier=self.parts.applier,
            updates=self.parts.updates,
            runner=self.parts.runner,
            collect_inputs=self._gather,
            overlay=self._facts,
            is_managed=lambda pod: pod.name not in self.unmanaged,
            policy=self._policy,
        )

    def want(self, level: Level, **values: Value) -> None:
        """What the first plugin wants of everything at a level from now on."""
        self.toy.wanted[level] = {Parameter[name.upper()]: value for name, value in values.items()}

    def want_nothing(self) -> None:
        """From now on."""
        self.toy.wanted = {}

    async def round(self, *, detail: bool = False, act: bool = True) -> ReconcilePass:
        """One of them."""
        return await self.reconciler.reconcile("test", detail=detail, apply=act)

    def of_pod(self, sandbox: FakeSandbox, parameter: Parameter) -> Value:
        """What a pod's cgroup has."""
        return self.parts.node.tree.read(self.parts.node.pod_directory(sandbox), parameter)

    def of(self, sandbox: FakeSandbox, parameter: Parameter, number: int = 0) -> Value:
        """What a container's cgroup has."""
        return self.parts.value(sandbox.containers[number], parameter)

    def write(self, sandbox: FakeSandbox, parameter: Parameter, value: Value) -> None:
        """Somebody else puts something into a container's cgroup."""
        self.parts.node.tree.write(self.parts.node.directory(sandbox.containers[0]), parameter, value)

    def restarted(self, plugins: Sequence[AnyPlugin] | None = None) -> "Rig":
        """Another one on the same node that knows only what the journal does."""
        fresh = Rig(self.parts.node, plugins)
        for level, key in self.parts.journal.targets():
            target = self.parts.journal.target_of(level, key) or ActuatorTarget(level=level, key=key)
            for parameter, entry in self.parts.journal.entries_of(level, key).items():
                fresh.parts.journal.note(
                    target, parameter, found=entry.found, written=entry.written, plugin=entry.plugin
                )
        return fresh

    def _gather(self, pods: Sequence[Pod], complete: bool) -> NodeSnapshot:
        self.complete = complete
        self.gathered.append([pod.name for pod in pods])
        return NodeSnapshot(self.inputs, self.parts.node.layout)

    async def _facts(self) -> MetadataOverlay:
        return MetadataOverlay(self.facts, known=self.facts_known)

    async def _policy(self) -> Ownership:
        return self.owned


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """A node without pods."""
    made = Rig()
    yield made
    await made.parts.close()


# -- putting right


async def test_a_round_puts_everything_in_place(rig: Rig) -> None:
    """Files of pods and groups, containers through the runtime."""
    sandbox = ls_pod(rig.parts.node, "web")
    rig.want(Level.POD, cpu_shares=99)
    rig.want(Level.QOS, cpu_shares=77)
    rig.want(Level.SANDBOX, cpu_shares=55)
    rig.want(Level.CONTAINER, cpu_shares=33, cpu_burst=5000)
    done = await rig.round()
    assert (rig.of_pod(sandbox, SHARES), rig.of(sandbox, SHARES), rig.of(sandbox, BURST)) == (99, 33, 5000)
    assert rig.parts.value(sandbox.id, SHARES) == 55
    assert rig.parts.node.tree.read("kubepods/burstable", SHARES) == 77
    assert [one.cpu_shares for one in rig.parts.sent()] == [33]
    assert (done.listed, done.wanted, done.written, done.errors) == (True, 7, 7, [])


async def test_a_second_round_has_nothing_to_do(rig: Rig) -> None:
    """Everything is as wanted."""
    ls_pod(rig.parts.node, "web")
    rig.want(Level.POD, cpu_shares=99)
    rig.want(Level.CONTAINER, cpu_shares=33)
    await rig.round()
    done = await rig.round()
    assert (done.written, done.unchanged, done.items) == (0, 2, [])
    assert len(rig.parts.sent()) == 1


async def test_detail_tells_of_what_is_as_wanted(rig: Rig) -> None:
    """For people who look."""
    ls_pod(rig.parts.node, "web")
    rig.want(Level.POD, cpu_shares=99)
    await rig.round()
    assert [one.action for one in (await rig.round(detail=True)).items] == [PlanAction.KEEP]


async def test_without_acting_nothing_is_changed(rig: Rig) -> None:
    """But all is told."""
    sandbox = ls_pod(rig.parts.node, "web")
    rig.want(Level.POD, cpu_shares=99)
    rig.want(Level.CONTAINER, cpu_shares=33)
    done = await rig.round(act=False)
    assert [(one.target.name, one.now, one.wanted, one.action) for one in done.items] == [
        ("default/web", 512, 99, PlanAction.SET),
        ("default/web/main", 512, 33, PlanAction.SET),
    ]
    assert (rig.of(sandbox, SHARES), done.written, len(rig.parts.journal)) == (512, 0, 0)


async def test_what_nobody_wants_any_more_is_put_back(rig: Rig) -> None:
    """Exactly, and the journal is empty then."""
    sandbox = ls_pod(rig.parts.node, "web")
    before = {one: (rig.of_pod(sandbox, one), rig.of(sandbox, one)) for one in (SHARES, QUOTA, BURST, CPUS)}
    rig.want(Level.POD, cpu_shares=99, cpu_quota=UNLIMITED)
    rig.want(Level.CONTAINER, cpu_shares=33, cpu_quota=UNLIMITED, cpu_burst=5, cpuset_cpus="0-1")
    await rig.round()
    rig.want_nothing()
    done = await rig.round()
    after = {one: (rig.of_pod(sandbox, one), rig.of(sandbox, one)) for one in before}
    assert after == before
    assert (done.errors, len(rig.parts.journal)) == ([], 0)


async def test_a_value_that_nobody_asked_for_goes_back_to_a_neutral_one(rig: Rig) -> None:
    """An update cannot say: as if nobody had said anything."""
    sandbox = be_pod(rig.parts.node, "batch")
    rig.want(Level.CONTAINER, cpu_quota=50_000)
    await rig.round()
    rig.want_nothing()
    await rig.round()
    assert [one.cpu_quota for one in rig.parts.sent()] == [50_000, -1]
    assert rig.of(sandbox, QUOTA) is UNLIMITED


async def test_a_container_that_does_not_run_yet_is_updated_too(rig: Rig) -> None:
    """What it has, the runtime tells."""
    sandbox = ls_pod(rig.parts.node, "web")
    image = rig.parts.node.runtime.images.pull(BUSYBOX, cri.AuthConfig())
    late = rig.parts.node.runtime.state.create_container(sandbox, container_config(sandbox.config, "late"), image)
    rig.want(Level.CONTAINER, cpu_shares=33)
    await rig.round()
    assert late.resources.cpu_shares == 33
    assert (await rig.round()).written == 0


async def test_host_applications_of_the_slo_are_served(rig: Rig) -> None:
    """Where they run."""
    rig.parts.node.cgroups.make("system.slice/nginx")
    app = HostApplication(name="nginx", qos=QosClass.LS, directory="system.slice/nginx")
    rig.inputs = NodeInputs(slo=NodeSLO(host_applications=(app,)))
    rig.want(Level.HOST_APP, cpu_shares=99)
    await rig.round()
    assert rig.parts.node.tree.read("system.slice/nginx", SHARES) == 99


async def test_a_cleared_set_follows_its_narrowed_pod(rig: Rig) -> None:
    """The container first gets what its pod will have: one update for both steps, and the kernel never says no."""
    sandbox = ls_pod(rig.parts.node, "web")
    await rig.parts.update(sandbox.containers[0], cpuset_cpus="4-7")
    rig.want(Level.POD, cpuset_cpus="0-3")
    rig.want(Level.SANDBOX, cpuset_cpus=CLEAR)
    rig.want(Level.CONTAINER, cpuset_cpus=CLEAR)
    for _ in range(3):
        done = await rig.round()
    assert (rig.of_pod(sandbox, CPUS), rig.of(sandbox, CPUS)) == ("0-3", "0-3")
    assert (done.written, done.errors) == (0, [])


# -- what others do


async def test_a_file_that_somebody_changed_is_put_right_through_the_runtime(rig: Rig) -> None:
    """And what was asked for stays what it was."""
    sandbox = ls_pod(rig.parts.node, "web")
    rig.want(Level.CONTAINER, cpu_shares=33)
    await rig.round()
    rig.write(sandbox, SHARES, 500)
    await rig.round()
    assert rig.of(sandbox, SHARES) == 33
    rig.want_nothing()
    await rig.round()
    assert rig.of(sandbox, SHARES) == 512


async def test_an_update_by_somebody_else_is_the_new_original(rig: Rig) -> None:
    """Our value is put in place again, but theirs is what it goes back to."""
    sandbox = ls_pod(rig.parts.node, "web")
    rig.want(Level.CONTAINER, cpu_shares=33)
    await rig.round()
    await rig.parts.update(sandbox.containers[0], cpu_shares=300)
    await rig.round()
    assert rig.of(sandbox, SHARES) == 33
    rig.want_nothing()
    await rig.round()
    assert rig.of(sandbox, SHARES) == 300


async def test_an_update_by_somebody_else_is_left_alone_when_nobody_wants_anything(rig: Rig) -> None:
    """It is not ours to restore."""
    sandbox = ls_pod(rig.parts.node, "web")
    rig.want(Level.CONTAINER, cpu_shares=33)
    await rig.round()
    await rig.parts.update(sandbox.containers[0], cpu_shares=300)
    rig.want_nothing()
    await rig.round()
    assert (rig.of(sandbox, SHARES), len(rig.parts.journal)) == (300, 0)


async def test_a_container_made_with_our_values_goes_back_to_what_was_asked_for(rig: Rig) -> None:
    """Its note tells, though this process never saw it being made."""
    node = rig.parts.node
    sandbox = ls_pod(node, "web")
    image = node.runtime.images.pull(BUSYBOX, cri.AuthConfig())
    config = container_config(
        sandbox.config,
        "noted",
        resources=cri.LinuxContainerResources(cpu_shares=33),
        annotations={ANNOTATION: '{"cpu_shares":[200,33]}'},
    )
    node.runtime.state.start_container(node.runtime.state.create_container(sandbox, config, image))
    rig.want(Level.CONTAINER, cpu_shares=33)
    await rig.round()
    rig.want_nothing()
    await rig.round()
    assert rig.of(sandbox, SHARES, 1) == 200


async def test_what_is_gone_is_forgotten(rig: Rig) -> None:
    """The journal does not grow."""
    sandbox = ls_pod(rig.parts.node, "web")
    rig.want(Level.POD, cpu_shares=99)
    rig.want(Level.CONTAINER, cpu_shares=33)
    await rig.round()
    for method in ("StopPodSandbox", "RemovePodSandbox"):
        request = getattr(cri, f"{method}Request")(pod_sandbox_id=sandbox.id)
        await rig.parts.node.runtime.call(method, request)
    done = await rig.round()
    assert (done.subjects, len(rig.parts.journal)) == ([], 0)


async def test_a_container_that_ends_in_the_middle_is_no_error(rig: Rig) -> None:
    """It was there a moment ago."""
    ls_pod(rig.parts.node, "web")
    rig.want(Level.CONTAINER, cpu_shares=33)
    rig.parts.node.runtime.fail(UPDATE, Code.NOT_FOUND)
    done = await rig.round()
    assert (done.errors, rig.parts.applier.held) == ([], 0)


# -- a runtime that is away, or says no


async def test_a_runtime_that_is_away_leaves_everything_as_it_is(rig: Rig) -> None:
    """Nobody knows what exists, so nothing counts as gone."""
    sandbox = ls_pod(rig.parts.node, "web")
    rig.want(Level.POD, cpu_shares=99)
    rig.want(Level.CONTAINER, cpu_shares=33)
    await rig.round()
    noted = len(rig.parts.journal)
    rig.parts.node.runtime.fail("ListPodSandbox", Code.UNAVAILABLE)
    fresh = rig.restarted()
    done = await fresh.round()
    assert (done.listed, done.subjects, done.written) == (False, [], 0)
    assert len(fresh.parts.journal) == noted
    assert (rig.of_pod(sandbox, SHARES), rig.of(sandbox, SHARES)) == (99, 33)
    await fresh.parts.close()


async def test_a_rule_that_changes_while_the_runtime_is_away_reaches_files(rig: Rig) -> None:
    """What is known of pods is enough for that; containers follow when it is back."""
    sandbox = ls_pod(rig.parts.node, "web")
    await rig.round()
    for method in ("ListPodSandbox", UPDATE):
        rig.parts.node.runtime.fail(method, Code.UNAVAILABLE, "away")
    rig.want(Level.POD, cpu_shares=99)
    rig.want(Level.CONTAINER, cpu_shares=33)
    done = await rig.round()
    assert (rig.of_pod(sandbox, SHARES), rig.of(sandbox, SHARES)) == (99, 512)
    assert done.errors == ["default/web/main: UNAVAILABLE: away"]
    rig.parts.node.runtime.clear()
    assert (await rig.round()).errors == []
    assert rig.of(sandbox, SHARES) == 33


async def test_an_update_that_is_refused_is_told_and_held(rig: Rig) -> None:
    """It is not tried again and again, but it is tried again."""
    sandbox = ls_pod(rig.parts.node, "web")
    rig.want(Level.CONTAINER, cpu_shares=33)
    rig.parts.node.runtime.fail(UPDATE, Code.UNKNOWN, "no", times=1)
    assert (await rig.round()).errors == ["default/web/main: UNKNOWN: no"]
    held = await rig.round()
    assert [(one.action, one.note) for one in held.items] == [(PlanAction.HELD, "UNKNOWN: no; again in 1 s")]
    assert held.errors == []
    rig.parts.now += 2
    await rig.round()
    assert (rig.of(sandbox, SHARES), rig.parts.applier.held) == (33, 0)


async def test_a_file_that_is_refused_is_told_with_its_target(rig: Rig) -> None:
    """The others are written."""
    sandbox = ls_pod(rig.parts.node, "web")
    rig.want(Level.POD, cpu_quota=5_000, cpu_shares=99)  # the container has more
    done = await rig.round()
    (error,) = done.errors
    assert error.startswith("default/web: ")
    assert "Invalid argument (EINVAL)" in error
    assert (rig.of_pod(sandbox, SHARES), done.written) == (99, 1)


async def test_one_refused_container_does_not_keep_others_from_theirs(rig: Rig) -> None:
    """Each has an update of its own."""
    pods = [ls_pod(rig.parts.node, name) for name in ("a", "b", "c")]
    rig.want(Level.CONTAINER, cpu_shares=33)
    rig.parts.node.runtime.fail(UPDATE, Code.UNKNOWN, "no", times=1)
    done = await rig.round()
    assert (len(done.errors), done.written) == (1, 2)
    assert sorted(str(rig.of(one, SHARES)) for one in pods) == ["33", "33", "512"]


# -- plugins


async def test_of_a_pod_about_which_nothing_changed_nobody_is_asked_again(rig: Rig) -> None:
    """A node has hundreds of them."""
    ls_pod(rig.parts.node, "web")
    rig.want(Level.POD, cpu_shares=99)
    await rig.round()
    rig.toy.seen.clear()
    be_pod(rig.parts.node, "new")
    await rig.round()
    assert "web" not in rig.toy.seen
    assert "new" in rig.toy.seen


async def test_a_changed_rule_is_asked_of_every_pod(rig: Rig) -> None:
    """Also one that takes what it wanted back."""
    sandbox = ls_pod(rig.parts.node, "web")
    for shares in (99, 98, 99):
        rig.want(Level.POD, cpu_shares=shares)
        await rig.round()
        assert rig.of_pod(sandbox, SHARES) == shares


async def test_a_plugin_that_fails_leaves_what_it_gave(rig: Rig) -> None:
    """Nobody knows what it wants there now; elsewhere it goes on, and so do others."""
    first, second = ls_pod(rig.parts.node, "a"), ls_pod(rig.parts.node, "b")
    rig.want(Level.POD, cpu_shares=99)
    await rig.round()
    rig.toy.fails = {"a"}
    rig.want(Level.POD, cpu_shares=98)
    rig.other.wanted = {Level.POD: {BURST: 5000}}
    done = await rig.round()
    assert (rig.of_pod(first, SHARES), rig.of_pod(second, SHARES)) == (99, 98)
    assert (rig.of_pod(first, BURST), rig.of_pod(second, BURST)) == (5000, 5000)
    assert [(one.target.name, one.failure.plugin) for one in done.desired_state.problems] == [("default/a", "toy")]


async def test_a_plugin_that_fails_is_asked_again_each_time(rig: Rig) -> None:
    """Though nothing changed: it may be itself again."""
    sandbox = ls_pod(rig.parts.node, "web")
    rig.toy.fails = {"web"}
    rig.want(Level.POD, cpu_shares=99)
    await rig.round()
    assert rig.of_pod(sandbox, SHARES) == 512
    rig.toy.fails = set()
    await rig.round()
    assert rig.of_pod(sandbox, SHARES) == 99


async def test_where_two_want_the_same_the_later_one_has_it(rig: Rig) -> None:
    """And the conflict is told."""
    sandbox = ls_pod(rig.parts.node, "web")
    rig.want(Level.POD, cpu_shares=99)
    rig.other.wanted = {Level.POD: {SHARES: 98}}
    done = await rig.round()
    assert rig.of_pod(sandbox, SHARES) == 98
    assert [(one.loser, one.winner) for one in done.desired_state.conflicts] == [("toy", "other")]


async def test_a_pod_that_shall_be_left_alone_gets_its_values_back(rig: Rig) -> None:
    """Others keep theirs."""
    first, second = ls_pod(rig.parts.node, "a"), ls_pod(rig.parts.node, "b")
    rig.want(Level.POD, cpu_shares=99)
    await rig.round()
    rig.unmanaged = {"a"}
    rig.facts = lambda pod: replace(pod, labels={**pod.labels, "seen": "again"})
    await rig.round()
    assert (rig.of_pod(first, SHARES), rig.of_pod(second, SHARES)) == (512, 99)


async def test_pods_are_as_the_facts_have_them(rig: Rig) -> None:
    """What another source knows of them counts."""
    ls_pod(rig.parts.node, "web")
    rig.facts = lambda pod: replace(pod, name="renamed")
    done = await rig.round()
    assert [one.pod.name for one in done.subjects] == ["renamed"]
    assert "renamed" in rig.toy.seen


# -- rules


async def test_rules_are_made_of_pods_that_are_ready(rig: Rig) -> None:
    """Those that have ended have no CPUs."""
    sandbox = ls_pod(rig.parts.node, "gone")
    ls_pod(rig.parts.node, "here")
    await rig.parts.node.runtime.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=sandbox.id))
    await rig.round()
    assert rig.gathered == [["here"]]


async def test_rules_that_did_not_change_are_the_same(rig: Rig) -> None:
    """Whoever goes by them need not look again."""
    rig.want(Level.POD, cpu_shares=99)
    assert await rig.reconciler.remake_rules((), complete=True)
    before = rig.reconciler.rules.by_plugin
    assert not await rig.reconciler.remake_rules((), complete=True)
    assert rig.reconciler.rules.by_plugin is before
    assert rig.reconciler.rule_changes == 1


async def test_a_rule_that_cannot_be_made_leaves_the_last_one(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """It is told once, and again if it is another problem."""
    sandbox = ls_pod(rig.parts.node, "web")
    rig.want(Level.POD, cpu_shares=99)
    await rig.round()
    with caplog.at_level(logging.ERROR, "interpose.hooks.server.reconcile.reconciler"):
        for problem in ("ratio: 'x'", "ratio: 'x'", "ratio: 'y'"):
            rig.toy.problem = problem
            await rig.round()
    assert rig.of_pod(sandbox, SHARES) == 99
    assert rig.reconciler.rules.problems == {"toy": "ratio: 'y'"}
    assert [record.__dict__["kv"]["err"] for record in caplog.records] == ["ratio: 'x'", "ratio: 'y'"]


async def test_a_plugin_that_never_had_a_rule_loses_nothing_it_gave_before(rig: Rig) -> None:
    """A restart with inputs that cannot be used is no reason to put everything back."""
    sandbox = ls_pod(rig.parts.node, "web")
    rig.want(Level.POD, cpu_shares=99)
    rig.want(Level.CONTAINER, cpu_shares=33)
    await rig.round()
    fresh = rig.restarted()
    fresh.toy.problem = "ratio: 'x'"
    await fresh.round()
    assert (rig.of_pod(sandbox, SHARES), rig.of(sandbox, SHARES)) == (99, 33)
    await fresh.parts.close()


# -- rounds


async def test_two_rounds_do_not_overlap(rig: Rig) -> None:
    """The second begins when the first is done."""
    ls_pod(rig.parts.node, "web")
    rig.want(Level.CONTAINER, cpu_shares=33)
    stall = rig.parts.node.runtime.stall(UPDATE)
    first = asyncio.create_task(rig.round())
    await stall.entered.wait()
    second = asyncio.create_task(rig.round())
    await asyncio.sleep(0)
    assert rig.parts.node.runtime.calls["ListPodSandbox"] == 1
    stall.release()
    assert [one.written for one in await asyncio.gather(first, second)] == [1, 0]


async def test_rounds_are_counted_by_reason_and_the_last_is_kept(rig: Rig) -> None:
    """For metrics and views."""
    for reason in ("tick", "cgroups", "tick"):
        done = await rig.reconciler.reconcile(reason)
    assert rig.reconciler.passes == {"tick": 2, "cgroups": 1}
    assert rig.reconciler.last is done
    assert done.reason == "tick"
    assert done.seconds > 0


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "a", "b")])
async def test_the_order_of_pods_makes_no_difference(version: int, order: tuple[str, ...]) -> None:
    """Neither to what is there afterwards."""
    rig = Rig(FakeNode(FakeKernel(version)))
    wanted: Mapping[str, Value] = {"cpu_shares": 1024, "cpu_quota": 50_000}
    rig.want(Level.POD, **wanted)
    rig.want(Level.CONTAINER, **wanted)
    pods = {name: ls_pod(rig.parts.node, name) for name in order}
    done = await rig.round()
    assert done.errors == []
    assert {name: rig.of(one, QUOTA) for name, one in sorted(pods.items())} == dict.fromkeys("abc", 50_000)
    assert {name: rig.of_pod(one, QUOTA) for name, one in pods.items()} == dict.fromkeys(order, 50_000)
    await rig.parts.close()


async def test_nothing_is_put_back_while_a_source_never_told_anything(rig: Rig) -> None:
    """A kubelet that is away after a restart: what plugins would want of its pods is not known."""
    sandbox = ls_pod(rig.parts.node, "web")
    rig.want(Level.CONTAINER, cpu_shares=7)
    await rig.round()
    rig.want_nothing()
    rig.facts_known = False
    await rig.round()
    assert rig.of(sandbox, Parameter.CPU_SHARES) == 7
    rig.facts_known = True
    await rig.round()
    assert rig.of(sandbox, Parameter.CPU_SHARES) != 7


# -- somebody who has the last word


class Stubborn:
    """A runtime that takes updates, behind somebody who has opinions about shares."""

    def __init__(self, rig: Rig) -> None:
        self.updates = 0
        self._updating = rig.parts.node.updating

    def updating(self, container: FakeContainer, patch: cri.LinuxContainerResources) -> None:
        """Take everything but shares."""
        self.updates += 1
        patch.cpu_shares = 700
        self._updating(container, patch)


async def test_a_value_that_is_replaced_on_its_way_is_held(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is asked for it again and again; other values of the same update are in place and are not held."""
    sandbox = ls_pod(rig.parts.node, "web")
    stubborn = Stubborn(rig)
    monkeypatch.setattr(rig.parts.node, "updating", stubborn.updating)
    rig.want(Level.CONTAINER, cpu_shares=33, cpu_quota=50_000)
    done = await rig.round()
    assert [text.partition(": ")[2] for text in done.errors] == [
        "cpu.shares: sent 33, found 700: another process sets it"
    ]
    for _ in range(5):
        await rig.round()
    assert (stubborn.updates, rig.parts.applier.held) == (1, 1)
    assert rig.of(sandbox, QUOTA) == 50_000
    rig.want(Level.CONTAINER, cpu_shares=700, cpu_quota=50_000)
    await rig.round()
    assert rig.parts.applier.held == 0


async def noted_pod(rig: Rig) -> FakeSandbox:
    """A pod whose container has a set of ours from its creation on, by its note; the second in it."""
    node = rig.parts.node
    sandbox = ls_pod(node, "web")
    image = node.runtime.images.pull(BUSYBOX, cri.AuthConfig())
    note = '{"cpuset_cpus":["","0-1","toy"]}'
    resources = cri.LinuxContainerResources(cpuset_cpus="0-1")
    config = container_config(sandbox.config, "noted", resources=resources, annotations={ANNOTATION: note})
    node.runtime.state.start_container(node.runtime.state.create_container(sandbox, config, image))
    return sandbox


async def test_a_restore_that_is_replaced_on_its_way_is_held(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """A policy behind the runtime's socket has the last word; who wants what is told once."""
    sandbox = await noted_pod(rig)
    node, updating = rig.parts.node, rig.parts.node.updating

    def replaced(container: FakeContainer, patch: cri.LinuxContainerResources) -> None:
        patch.cpuset_cpus = "0-1"
        updating(container, patch)

    node.updating = replaced  # type: ignore[method-assign]
    for _ in range(10):
        await rig.round()
    assert (len(rig.parts.sent()), rig.parts.applier.held) == (1, 1)
    for _ in range(3):
        rig.parts.now += 300
        await rig.round()
    assert len(rig.parts.sent()) == 4
    told = [one.kv for one in caplog.records if "rejected" in one.message]  # type: ignore[attr-defined]
    assert [(one["plugin"], one["error"]) for one in told] == [
        ("toy", "sent clear, found 0-1: another process sets it")
    ]
    node.updating = updating  # type: ignore[method-assign]
    rig.parts.now += 300
    await rig.round()
    assert rig.of(sandbox, CPUS, 1) == rig.of(sandbox, CPUS)
    assert rig.parts.applier.held == 0


async def test_a_restore_that_is_undone_later_is_held(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Somebody writes the value again after each restore: that gets rarer, and is told once."""
    sandbox = await noted_pod(rig)
    for _ in range(20):
        await rig.round()
        await rig.parts.update(sandbox.containers[1], cpuset_cpus="0-1")
        await rig.parts.sync.refresh(sandbox.containers[1])
        rig.parts.now += 0.1
    assert len([one for one in rig.parts.sent() if one.cpuset_cpus != "0-1"]) == 2
    told = [one.kv for one in caplog.records if "changed back" in one.message]  # type: ignore[attr-defined]
    assert [(one["plugin"], one["undone_by"]) for one in told] == [("toy", "another process")]
    rig.parts.now += 300
    await rig.round()  # nobody undoes it any more
    await rig.round()
    assert rig.of(sandbox, CPUS, 1) == "0-7"


async def test_what_the_policy_of_a_relay_owns_is_left_alone(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Neither what is wanted is written nor what was set is put back; when the policy has ended, both are."""
    sandbox = await noted_pod(rig)
    rig.want(Level.CONTAINER, cpuset_cpus="2-3", cpu_shares=33)
    rig.want(Level.POD, cpu_shares=99)
    rig.owned = Ownership("static", frozenset({CPUS}))
    for _ in range(3):
        done = await rig.round(detail=True)
    assert (rig.of(sandbox, CPUS, 1), rig.of(sandbox, SHARES, 1), rig.of_pod(sandbox, SHARES)) == ("0-1", 33, 99)
    assert rig.parts.applier.left_to_policy == {("toy", CPUS): 2}
    notes = {one.note for one in done.items if one.action is PlanAction.LEFT}
    assert notes == {"policy static of the relay decides about it"}
    told = [one.kv for one in caplog.records if "left to the policy" in one.message]  # type: ignore[attr-defined]
    assert told == [{"plugin": "toy", "parameter": "cpuset.cpus", "policy": "static"}]
    rig.want_nothing()
    await rig.round()
    assert (rig.of(sandbox, CPUS, 1), rig.of(sandbox, SHARES, 1)) == ("0-1", 1024)
    assert rig.parts.applier.left_to_policy == {("toy", CPUS): 1}
    rig.owned = Ownership()
    await rig.round()
    assert rig.of(sandbox, CPUS, 1) == "0-7"
    assert rig.parts.applier.left_to_policy == {}


# -- starts


class Starting:
    """A runtime that loses updates of one container while it starts, as containerd does: its record has them."""

    def __init__(self, rig: Rig) -> None:
        self.sandbox = ls_pod(rig.parts.node, "web")
        self._node, self._updating = rig.parts.node, rig.parts.node.updating
        image = self._node.runtime.images.pull(BUSYBOX, cri.AuthConfig())
        config = container_config(self.sandbox.config, "late")
        self.late = self._node.runtime.state.create_container(self.sandbox, config, image)
        self.loses = False
        self._node.updating = self._update  # type: ignore[method-assign]

    def _update(self, container: FakeContainer, patch: cri.LinuxContainerResources) -> None:
        if not self.loses or container is not self.late:
            self._updating(container, patch)

    def start(self) -> None:
        """The cgroup is there, made of what was asked for; the runtime does not say yet that it runs."""
        self._node.runtime.state.start_container(self.late)
        self.late.state = cri.CONTAINER_CREATED

    def end(self) -> None:
        """It says so."""
        self.late.state = cri.CONTAINER_RUNNING


async def test_a_container_that_is_being_started_is_not_updated(rig: Rig) -> None:
    """The runtime would lose it; once it runs it gets what it shall have."""
    node = Starting(rig)
    node.start()
    rig.want(Level.CONTAINER, cpu_shares=33)
    done = await rig.round()
    assert (done.starting, [one.target.name for one in done.undone]) == (1, ["default/web/late"])
    assert len(rig.parts.sent()) == 1  # of the other one
    node.end()
    done = await rig.round()
    assert (done.starting, rig.of(node.sandbox, SHARES, 1), len(rig.parts.sent())) == (0, 33, 2)
    assert rig.parts.updates.repeated == 0


async def test_an_update_that_met_the_start_is_sent_again(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """It was sent before there was a cgroup, and is not in it: counted, told, and nobody else's fault."""
    node = Starting(rig)
    node.loses = True
    rig.want(Level.CONTAINER, cpu_shares=33)
    await rig.round()
    assert rig.parts.updates.unconfirmed == {node.late.id}
    before = node.late.resources.cpu_shares
    node.late.resources.cpu_shares = 2
    node.start()
    node.late.resources.cpu_shares = before
    node.end()
    node.loses = False
    await rig.round()
    assert (rig.of(node.sandbox, SHARES, 1), rig.parts.updates.repeated) == (33, 1)
    assert "Update was lost while the container was started and is sent again" in caplog.text
    assert rig.parts.applier.drift == {}
    await rig.round()
    assert (rig.parts.updates.unconfirmed, rig.parts.updates.repeated) == (set(), 1)


async def test_an_update_before_the_start_that_is_in_force_is_confirmed(rig: Rig) -> None:
    """And one of a container that went is forgotten."""
    node = Starting(rig)
    rig.want(Level.CONTAINER, cpu_shares=33)
    await rig.round()
    assert rig.parts.updates.unconfirmed == {node.late.id}
    node.start()
    node.end()
    await rig.round()
    assert (rig.parts.updates.unconfirmed, rig.parts.updates.repeated) == (set(), 0)
    rig.parts.updates.unconfirmed.add("gone")
    await rig.round()
    assert rig.parts.updates.unconfirmed == set()


class RuleThatHangs(ToyPlugin):
    """Its rule waits for somebody, and the clock goes on meanwhile."""

    def __init__(self) -> None:
        super().__init__("hanging")
        self.release = threading.Event()
        self.time = 0.0

    def rule(self, node: NodeInputs, previous: tuple[Any, ...] | None) -> tuple[Any, ...]:
        """Not in time."""
        self.time += 1.0
        self.release.wait(WAIT_LIMIT)
        return ()


async def test_a_rule_that_hangs_holds_up_nobody(rig: Rig) -> None:
    """The loop goes on, the others get their rules, and it is left out with a reason."""
    hanging = RuleThatHangs()
    runner = Runner(timeout=0.05, now=lambda: hanging.time)
    made = Reconciler(
        plugins=(hanging, rig.toy),
        sync=rig.parts.sync,
        inventory=rig.parts.inventory,
        applier=rig.parts.applier,
        updates=rig.parts.updates,
        runner=runner,
        collect_inputs=lambda _pods, _complete: NodeSnapshot(NodeInputs(), rig.parts.node.layout),
        overlay=rig._facts,
        is_managed=lambda _pod: True,
        policy=rig._policy,
    )
    try:
        await made.remake_rules((), complete=True)
        assert set(made.rules.by_plugin) == {"toy"}
        assert made.rules.problems == {"hanging": "left out, it did not return in time before"}
    finally:
        hanging.release.set()
        await runner.close()


async def test_values_of_a_plugin_that_cannot_be_loaded_stay(rig: Rig) -> None:
    """A package that breaks in an upgrade changes nothing of what it set; one that is off does."""
    sandbox = ls_pod(rig.parts.node, "web")
    before = rig.of_pod(sandbox, SHARES)
    rig.want(Level.POD, cpu_shares=99)
    await rig.round()
    broken: list[AnyPlugin] = [UnusablePlugin("toy", "ImportError")]
    for plugins, value in ((broken, 99), ([], before)):
        later = rig.restarted(plugins)
        await later.round()
        assert rig.of_pod(sandbox, SHARES) == value != 0
        await later.parts.close()
    assert before != 99
