"""What happens besides the answer of a hook call."""

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import pytest

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter, Value
from interpose.core.model.pod import Container, Pod
from interpose.core.model.resources import LinuxResources
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.api.messages import request_class
from interpose.hooks.server.context import Wish
from interpose.hooks.server.evaluate import PluginFailure, PluginResults
from interpose.hooks.server.node.relay_policy import Ownership
from interpose.hooks.server.node.rules import PluginRules, make_rules
from interpose.hooks.server.plugin import NodeInputs
from interpose.hooks.server.pods.pod_annotations import RESOURCE_STATUS
from interpose.hooks.server.proxy.convert import container_of
from interpose.hooks.server.proxy.side_effects import ProxyEffects
from interpose.hooks.server.reconcile.inventory import pod_target
from interpose.hooks.server.reconcile.journal_format import JournalEntry
from interpose.hooks.server.reconcile.original_values import ANNOTATION
from interpose.hooks.server.targets import ActuatorTarget
from interpose.testing.eventually import eventually
from interpose.testing.fakenode import FakeNode
from interpose.testing.kernel.cgroup import FakeKernel
from interpose.testing.qospods import ls_pod
from tests.support.hooks.parts import HookParts, ToyPlugin

SHARES, QUOTA, BURST, CPUS = Parameter.CPU_SHARES, Parameter.CPU_QUOTA, Parameter.CPU_BURST, Parameter.CPUSET_CPUS


class Hooked:
    """Effects around a node with one LS pod: 512 shares, a quota of 100000."""

    def __init__(self, node: FakeNode | None = None) -> None:
        self.toy, self.other = ToyPlugin(), ToyPlugin("other")
        self.parts = HookParts(node, plugins=[self.toy, self.other])
        self.sandbox = ls_pod(self.parts.node, "web")
        self.key = self.sandbox.containers[0]
        self.directory = self.parts.node.pod_directory(self.sandbox)
        self.left: list[str] = []
        self.blocks: dict[str, threading.Event] = {}  # pods whose leaving takes until somebody says so
        self.stubborn = ""  # a pod whose leaving fails
        self.pools = 0
        self.owned = Ownership()
        self.started: list[str] = []
        self.effects = ProxyEffects(
            plugins=self.parts.plugins,
            rules=lambda: make_rules(self.parts.plugins, NodeInputs(), PluginRules()),
            runner=self.parts.runner,
            inventory=self.parts.inventory,
            applier=self.parts.applier,
            journal=self.parts.journal,
            sync=self.parts.sync,
            remove_pod_state=self._leave,
            pools_changed=self._pools_changed,
            owned=lambda: self.owned,
            started=self.started.append,
        )

    @property
    def pod(self) -> Pod:
        """Its record."""
        return self.parts.store.pods[self.sandbox.id]

    @property
    def container(self) -> Container:
        """The record of its container."""
        return self.parts.store.containers[self.key]

    def of_pod(self, parameter: Parameter) -> Value:
        """What its cgroup has."""
        return self.parts.node.tree.read(self.directory, parameter)

    def entry(self, parameter: Parameter) -> tuple[Value | None, Value, Value | None] | None:
        """What is noted of its container: found, written, before."""
        entry = self.parts.journal.get(Level.CONTAINER, self.key, parameter)
        return None if entry is None else (entry.found, entry.written, entry.before)

    def note(self, parameter: Parameter, *, found: Value | None, written: Value) -> None:
        """As if its container had been given something."""
        target = ActuatorTarget(level=Level.CONTAINER, key=self.key)
        self.parts.journal.note(target, parameter, found=found, written=written, plugin="toy")

    def _leave(self, uid: str) -> None:
        if uid == self.stubborn:
            raise OSError(f"{uid} cannot be taken away")
        self.left.append(uid)
        if uid in self.blocks:
            self.blocks[uid].wait()

    def _pools_changed(self) -> None:
        self.pools += 1


@pytest.fixture
async def hooked() -> AsyncIterator[Hooked]:
    """In step with the runtime."""
    made = Hooked()
    await made.parts.sync.resync()
    yield made
    await made.parts.close()


def verdict(wishes: Mapping[Parameter, Value]) -> PluginResults:
    """What a plugin wants."""
    return PluginResults(values={parameter: ("toy", Wish(value, "told so")) for parameter, value in wishes.items()})


def wished(said: PluginResults) -> dict[Parameter, Value]:
    """The values in it."""
    return {parameter: wish.value for parameter, (_, wish) in said.values.items()}


# -- what messages do not tell


async def test_a_known_pod_has_its_overhead_and_handler(hooked: Hooked) -> None:
    """Messages about containers do not have them."""
    overhead = LinuxResources(cpu_shares=10)
    hooked.parts.store.put_pod(replace(hooked.pod, overhead=overhead, runtime_handler="kata"))
    told = replace(hooked.pod, id="", overhead=LinuxResources(), runtime_handler="", labels={"told": "now"})
    assert hooked.effects.pod(told) == replace(told, overhead=overhead, runtime_handler="kata")


async def test_a_pod_that_nobody_knows_is_as_it_was_told(hooked: Hooked) -> None:
    """One without a uid is never taken for another."""
    for stranger in (Pod(id="", uid="strange"), Pod(id="", uid="")):
        assert hooked.effects.pod(stranger) is stranger


async def test_a_pod_about_which_nothing_is_to_add_is_the_same(hooked: Hooked) -> None:
    """No copy for nothing."""
    told = hooked.pod
    assert hooked.effects.pod(told) is told


async def test_a_container_that_tells_what_we_made_of_it_has_what_was_asked_for(hooked: Hooked) -> None:
    """As the journal knows it."""
    hooked.note(SHARES, found=512, written=7)
    told = replace(hooked.container, resources=LinuxResources(cpu_shares=7), requested=LinuxResources(cpu_shares=7))
    assert hooked.effects.container(hooked.pod, told).requested.cpu_shares == 512


async def test_the_note_of_a_container_is_as_good_as_the_journal(hooked: Hooked) -> None:
    """It lives as long as the container; the journal may have been lost."""
    has = LinuxResources(cpu_shares=7)
    told = replace(hooked.container, resources=has, requested=has, annotations={ANNOTATION: '{"cpu_shares":[512,7]}'})
    assert hooked.effects.container(hooked.pod, told).requested.cpu_shares == 512


@pytest.mark.parametrize("note", ["{", '{"cpu_shares":"much"}', '{"cpu_shares":[512,8]}'])
async def test_a_note_that_is_damaged_or_not_in_force_tells_nothing(hooked: Hooked, note: str) -> None:
    """What the message says was asked for."""
    told = replace(hooked.container, annotations={ANNOTATION: note})
    assert hooked.effects.container(hooked.pod, told) == told


async def test_entries_of_files_do_not_change_what_was_asked_for(hooked: Hooked) -> None:
    """Requests do not carry them."""
    hooked.note(BURST, found=0, written=7)
    told = hooked.container
    assert hooked.effects.container(hooked.pod, told) is told


async def test_a_container_that_is_not_made_yet_is_as_it_was_told(hooked: Hooked) -> None:
    """Nothing can be known of it."""
    fresh = Container(id="", name="main", annotations={ANNOTATION: '{"cpu_shares":[512,0]}'})
    assert hooked.effects.container(hooked.pod, fresh) is fresh


# -- files of pods


async def test_values_of_a_pod_are_written_and_noted(hooked: Hooked) -> None:
    """Whatever the answer carries of them: the kubelet made the cgroup before."""
    found = hooked.of_pod(SHARES)
    await hooked.effects.write_pod_files(hooked.pod, verdict({SHARES: 99, QUOTA: UNLIMITED}))
    assert (hooked.of_pod(SHARES), hooked.of_pod(QUOTA)) == (99, UNLIMITED)
    entry = hooked.parts.journal.get(Level.POD, hooked.directory, SHARES)
    assert entry is not None
    assert (entry.found, entry.written, entry.plugin) == (found, 99, "toy")


async def test_a_pod_without_cgroup_gets_nothing_yet(hooked: Hooked) -> None:
    """It has one when its first container is created."""
    await hooked.effects.write_pod_files(replace(hooked.pod, cgroup_parent="/kubepods/nowhere"), verdict({SHARES: 99}))
    assert len(hooked.parts.journal) == 0


async def test_without_wishes_nothing_is_looked_at(hooked: Hooked) -> None:
    """Not even whether there is such a pod."""
    await hooked.effects.write_pod_files(replace(hooked.pod, cgroup_parent="/../etc"), verdict({}))
    assert len(hooked.parts.journal) == 0


async def test_writing_one_pod_forgets_nothing_of_others(hooked: Hooked) -> None:
    """A hook call sees one pod; that others are not in it means nothing."""
    other = ActuatorTarget(level=Level.POD, key="kubepods/other", directory="kubepods/other")
    hooked.parts.journal.note(other, SHARES, found=1, written=2, plugin="toy")
    await hooked.effects.write_pod_files(hooked.pod, verdict({SHARES: 99}))
    assert hooked.parts.journal.get(Level.POD, "kubepods/other", SHARES) is not None


# -- updates


async def test_what_an_update_asked_for_is_noted(hooked: Hooked) -> None:
    """Where the container gets something else."""
    asked = replace(hooked.container, requested=LinuxResources(cpu_shares=512, cpu_quota=50_000))
    said = verdict({SHARES: 7, QUOTA: 50_000, BURST: 5})
    assert await hooked.effects.on_update(hooked.pod, asked, said) == said
    assert hooked.entry(SHARES) == (512, 7, None)
    assert hooked.entry(QUOTA) is None  # it has what was asked for
    assert hooked.entry(BURST) is None  # no update carries it


async def test_a_later_update_is_the_new_original(hooked: Hooked) -> None:
    """And until the runtime has done it, what the container has is what it got from us before."""
    hooked.note(SHARES, found=512, written=7)
    asked = replace(hooked.container, requested=LinuxResources(cpu_shares=300))
    await hooked.effects.on_update(hooked.pod, asked, verdict({SHARES: 8}))
    assert hooked.entry(SHARES) == (300, 8, 7)


async def test_what_nobody_wants_any_more_is_put_back_with_an_update(hooked: Hooked) -> None:
    """The update does not set it, so it says what is neutral."""
    given: Mapping[Parameter, Value] = {SHARES: 7, QUOTA: 5000, Parameter.MEMORY_LIMIT: 1 << 20, CPUS: "0"}
    for parameter, written in given.items():
        hooked.note(parameter, found=None, written=written)
    asked = replace(hooked.container, requested=LinuxResources())
    said = await hooked.effects.on_update(hooked.pod, asked, verdict({}))
    assert wished(said) == {SHARES: 1024, QUOTA: UNLIMITED, Parameter.MEMORY_LIMIT: UNLIMITED, CPUS: CLEAR}


async def test_what_a_policy_owns_is_not_put_back_with_an_update(hooked: Hooked) -> None:
    """Nobody wants it any more but the policy, which is asked after us."""
    hooked.owned = Ownership("static", frozenset({CPUS}))
    hooked.note(CPUS, found=None, written="0")
    hooked.note(SHARES, found=512, written=7)
    assert wished(await hooked.effects.on_update(hooked.pod, hooked.container, verdict({}))) == {SHARES: 512}


async def test_that_a_container_runs_is_told(hooked: Hooked) -> None:
    """Somebody may have to look at it."""
    await hooked.effects.on_start(hooked.pod, hooked.container)
    assert hooked.started == [hooked.key]


async def test_what_nobody_wants_any_more_is_as_it_was_asked_for(hooked: Hooked) -> None:
    """Said outright: the container has something else."""
    hooked.note(SHARES, found=512, written=7)
    said = await hooked.effects.on_update(hooked.pod, hooked.container, verdict({}))
    assert {parameter: wish.value for parameter, (_, wish) in said.values.items()} == {SHARES: 512}


async def test_what_cannot_be_noted_is_not_changed(hooked: Hooked, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: nobody would know later what it was."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(hooked.parts.journal, "supersede", full)
    said = await hooked.effects.on_update(hooked.pod, hooked.container, verdict({SHARES: 7, BURST: 5}))
    assert list(said.values) == [BURST]


async def test_an_update_that_is_refused_leaves_the_original(hooked: Hooked) -> None:
    """Somebody asks for something else, and the runtime does not do it: what was asked for before counts."""
    hooked.note(SHARES, found=512, written=7)
    asked = replace(hooked.container, requested=LinuxResources(cpu_shares=300))
    await hooked.effects.on_update(hooked.pod, asked, verdict({SHARES: 9}))
    entry = hooked.parts.journal.get(Level.CONTAINER, hooked.key, SHARES)
    assert entry == JournalEntry(found=300, written=9, plugin="toy", before=7, moved=True, found_before=512)


async def test_what_is_still_wanted_is_not_put_back(hooked: Hooked) -> None:
    """The verdict has it."""
    hooked.note(SHARES, found=None, written=7)
    asked = replace(hooked.container, requested=LinuxResources())
    assert wished(await hooked.effects.on_update(hooked.pod, asked, verdict({SHARES: 8}))) == {SHARES: 8}


async def test_what_files_carry_is_not_put_back_with_an_update(hooked: Hooked) -> None:
    """A round does that."""
    hooked.note(BURST, found=0, written=7)
    asked = replace(hooked.container, requested=LinuxResources())
    assert wished(await hooked.effects.on_update(hooked.pod, asked, verdict({}))) == {}


async def test_after_an_update_the_record_is_looked_at_again(hooked: Hooked) -> None:
    """What the runtime has then, only it knows."""
    await hooked.parts.update(hooked.key, cpu_shares=99)
    await hooked.effects.on_update(hooked.pod, hooked.container, verdict({}))
    await eventually(lambda: hooked.container.resources.cpu_shares == 99, "the record to be refreshed")


async def test_what_a_plugin_that_failed_gave_before_stays(hooked: Hooked) -> None:
    """Nobody knows what it wants now."""
    hooked.note(SHARES, found=None, written=7)
    asked = replace(hooked.container, requested=LinuxResources())
    said = PluginResults(failures=[PluginFailure("toy", "no idea")])
    assert wished(await hooked.effects.on_update(hooked.pod, asked, said)) == {}


# -- containers that are made, run and end


async def test_a_create_has_no_effect_of_its_own(hooked: Hooked) -> None:
    """The note is in the answer."""
    await hooked.effects.on_create(hooked.pod, hooked.container, verdict({SHARES: 7}))
    assert len(hooked.parts.journal) == 0


async def test_a_container_that_started_gets_what_only_files_carry(hooked: Hooked) -> None:
    """It and its pod; what CRI carries was in the create request."""
    hooked.toy.wanted = {Level.CONTAINER: {BURST: 5000, SHARES: 7}, Level.POD: {SHARES: 99}}
    await hooked.effects.on_start(hooked.pod, hooked.container)
    assert hooked.parts.value(hooked.key, BURST) == 5000
    assert hooked.parts.value(hooked.key, SHARES) == 512
    assert hooked.of_pod(SHARES) == 99


@pytest.mark.parametrize("systemd", [False, True], ids=["cgroupfs", "systemd"])
async def test_a_container_of_docker_is_found_in_its_pod(systemd: bool) -> None:
    """As a relay in front of dockerd tells it: the whole path of the pod's cgroup, and ids without a runtime's name."""
    hooked = Hooked(FakeNode(FakeKernel(1), systemd=systemd, scope="docker"))
    try:
        await hooked.parts.sync.resync()
        directory = hooked.parts.node.directory(hooked.key)
        assert directory.endswith(f"/docker-{hooked.key}.scope" if systemd else f"/{hooked.key}")
        request = request_class(HookPoint.POST_START_CONTAINER)(
            pod_meta={"name": "web", "namespace": "default", "uid": hooked.pod.uid},
            pod_annotations={"io.kubernetes.docker.type": "podsandbox"},
            pod_cgroup_parent=f"/{hooked.directory}",
            container_meta={"name": "main", "id": hooked.key},
        )
        hooked.toy.wanted = {Level.CONTAINER: {BURST: 5000}, Level.POD: {SHARES: 99}}
        await hooked.effects.on_start(*container_of(request))
        assert hooked.parts.value(hooked.key, BURST) == 5000
        assert hooked.of_pod(SHARES) == 99
    finally:
        await hooked.parts.close()


async def test_a_container_without_a_cgroup_gets_nothing(hooked: Hooked) -> None:
    """It ended at once."""
    hooked.toy.wanted = {Level.CONTAINER: {BURST: 5000}, Level.POD: {SHARES: 99}}
    await hooked.effects.on_start(hooked.pod, replace(hooked.container, id="gone"))
    await hooked.effects.on_start(hooked.pod, replace(hooked.container, cgroup_parent="/nowhere"))
    assert len(hooked.parts.journal) == 0


async def test_a_value_that_is_refused_is_held_and_fails_nothing(hooked: Hooked) -> None:
    """A round tries it again."""
    hooked.toy.wanted = {Level.POD: {QUOTA: 5000}}  # less than its container has
    await hooked.effects.on_start(hooked.pod, hooked.container)
    assert hooked.of_pod(QUOTA) == 100_000
    assert hooked.parts.applier.held == 1


@pytest.mark.parametrize("fails", [False, True])
async def test_a_hook_call_puts_nothing_back(hooked: Hooked, fails: bool) -> None:
    """Only some plugins are asked there, so nobody knows what the others want; rounds do it."""
    hooked.toy.wanted = {Level.CONTAINER: {BURST: 5000}}
    await hooked.effects.on_start(hooked.pod, hooked.container)
    hooked.toy.wanted, hooked.toy.fails = {}, {"main"} if fails else set()
    hooked.other.wanted = {Level.CONTAINER: {Parameter.CPU_PERIOD: 200_000}}
    await hooked.effects.on_start(hooked.pod, hooked.container)
    assert hooked.parts.value(hooked.key, BURST) == 5000
    assert hooked.parts.value(hooked.key, Parameter.CPU_PERIOD) == 200_000


async def test_a_container_that_stopped_has_no_effect(hooked: Hooked) -> None:
    """A round sees whether it is gone."""
    hooked.note(SHARES, found=512, written=7)
    await hooked.effects.on_container_stop(hooked.pod, hooked.key)
    assert hooked.entry(SHARES) is not None


async def test_a_pod_that_stopped_leaves_nothing_behind(hooked: Hooked) -> None:
    """What is not in its cgroup is taken away by its uid."""
    await hooked.effects.on_pod_stop(hooked.pod)
    assert hooked.left == [hooked.pod.uid]


@pytest.mark.parametrize(("annotations", "times"), [({RESOURCE_STATUS: "{}"}, 2), ({"other": "{}"}, 0)])
async def test_pods_with_cpus_of_their_own_change_the_pools(
    hooked: Hooked, annotations: Mapping[str, str], times: int
) -> None:
    """When they come and when they go; others do not."""
    pod = replace(hooked.pod, annotations=annotations)
    await hooked.effects.on_start(pod, hooked.container)
    await hooked.effects.on_pod_stop(pod)
    assert hooked.pools == times


# -- one at a time


async def test_two_calls_do_not_work_on_one_pod_at_a_time(hooked: Hooked) -> None:
    """The second waits for the first."""
    gate = hooked.blocks[hooked.pod.uid] = threading.Event()
    first = asyncio.create_task(hooked.effects.on_pod_stop(hooked.pod))
    await eventually(lambda: hooked.left, "the first call to be at work")
    second = asyncio.create_task(hooked.effects.write_pod_files(hooked.pod, verdict({SHARES: 99})))
    await hooked.effects.on_pod_stop(Pod(id="", uid="other"))  # a turn of the loop and of the threads
    assert not second.done()
    assert hooked.of_pod(SHARES) != 99
    gate.set()
    await asyncio.gather(first, second)
    assert hooked.of_pod(SHARES) == 99


async def test_calls_about_different_pods_do_not_wait_for_each_other(hooked: Hooked) -> None:
    """A pod that takes long is nobody else's trouble."""
    gate = hooked.blocks["slow"] = threading.Event()
    slow = asyncio.create_task(hooked.effects.on_pod_stop(Pod(id="", uid="slow")))
    await eventually(lambda: hooked.left, "the slow one to be at work")
    await hooked.effects.on_pod_stop(Pod(id="", uid="quick"))
    assert hooked.left == ["slow", "quick"]
    gate.set()
    await slow


async def test_a_failure_lets_the_next_one_in(hooked: Hooked) -> None:
    """Its error is its own."""
    hooked.stubborn = hooked.pod.uid
    with pytest.raises(OSError, match="cannot be taken away"):
        await hooked.effects.on_pod_stop(hooked.pod)
    await hooked.effects.write_pod_files(hooked.pod, verdict({SHARES: 99}))
    assert hooked.of_pod(SHARES) == 99


def test_a_target_of_a_pod_has_its_directory_as_key() -> None:
    """Several sandboxes of a pod share it."""
    pod = Pod(id="s", name="web", namespace="shop", uid="u")
    assert pod_target(pod, "kubepods/podu") == ActuatorTarget(
        level=Level.POD, key="kubepods/podu", directory="kubepods/podu", name="shop/web", pod_uid="u"
    )
