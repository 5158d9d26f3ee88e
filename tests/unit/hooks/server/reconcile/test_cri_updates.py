"""Updates of running containers: straight to a runtime, and through a relay that asks us."""

import asyncio
import errno
import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter, Value, cri_value
from interpose.hooks.server.reconcile.cri_updates import ContainerUpdate, ContainerUpdates, UpdateRefusal
from interpose.net.grpc.status import Code
from interpose.testing.fakenode import FakeNode
from interpose.testing.kernel.cgroup import FakeKernel
from interpose.testing.qospods import be_pod, ls_pod
from tests.support.hooks.parts import HookParts

SHARES, QUOTA, CPUS = Parameter.CPU_SHARES, Parameter.CPU_QUOTA, Parameter.CPUSET_CPUS
METHOD = "UpdateContainerResources"
_NO_PLUGINS: Mapping[Parameter, str] = {}


@pytest.fixture
async def parts() -> AsyncIterator[HookParts]:
    """A node with an LS pod of one container, known to the store: 512 shares, a quota of 100000, no CPUs of its own."""
    made = HookParts()
    ls_pod(made.node, "web")
    await made.sync.resync()
    yield made
    await made.close()


def of(parts: HookParts, values: Mapping[Parameter, Value | None], number: int = 0) -> ContainerUpdate:
    """An update of one of the containers, as a round makes it."""
    members = [member for one in parts.inventory.subjects(parts.records()) for member in one.members]
    member = members[number]
    wanted = {parameter: value for parameter, value in values.items() if value is not None}
    restored = {
        parameter: cri_value(member.container.requested, parameter)
        for parameter, value in values.items()
        if value is None
    }
    return ContainerUpdate(member.target, member.container, wanted, restored, dict.fromkeys(values, "toy"))


def journal(parts: HookParts, key: str) -> dict[Parameter, tuple[Value | None, Value, Value | None]]:
    """What is noted of a container: found, written, before."""
    entries = parts.journal.entries_of(Level.CONTAINER, key)
    return {parameter: (one.found, one.written, one.before) for parameter, one in entries.items()}


class Relay:
    """Before the runtime of these parts: asks us about updates, unless it has forgotten us."""

    def __init__(self, parts: HookParts) -> None:
        self.parts = parts
        self.knows_us = True
        self.wanted: dict[str, int] = {}  # what we answer, by field
        self.asked: Counter[str] = Counter()
        self.seen: list[cri.LinuxContainerResources] = []
        self.refreshed: list[str] = []

    async def call(self, method: str, message: bytes) -> bytes:
        """Pass a call on."""
        request = cri.UpdateContainerResourcesRequest.FromString(message)
        self.seen.append(cri.LinuxContainerResources.FromString(request.linux.SerializeToString()))
        if self.knows_us:
            self.asked[request.container_id] += 1
            for name, value in self.wanted.items():
                setattr(request.linux, name, value)
        return await self.parts.call(method, request.SerializeToString())

    async def refresh(self, ref: str) -> None:
        """Look at a container again."""
        self.refreshed.append(ref)
        await self.parts.sync.refresh(ref)

    def updates(self) -> ContainerUpdates:
        """Sent through it."""
        parts = self.parts
        return ContainerUpdates(
            parts.store,
            self.call,
            parts.journal,
            allowed=parts.allowed,
            refresh=self.refresh,
            update_count=lambda one: self.asked[one],
        )


# -- straight to a runtime


async def test_a_direct_update_carries_the_wanted_values(parts: HookParts) -> None:
    """And nothing else."""
    update = of(parts, {SHARES: 7, QUOTA: UNLIMITED})
    assert await parts.updates.send([update]) == {}
    assert parts.sent() == [cri.LinuxContainerResources(cpu_shares=7, cpu_quota=-1)]
    assert parts.updates.sent == 1


async def test_the_store_knows_what_a_direct_update_did(parts: HookParts) -> None:
    """Without asking the runtime again."""
    update = of(parts, {SHARES: 7})
    await parts.updates.send([update])
    record = parts.store.containers[update.target.key]
    assert (record.resources.cpu_shares, record.resources.cpu_quota) == (7, 100_000)
    assert not record.diverges


async def test_a_direct_update_is_noted_with_what_was_asked_for(parts: HookParts) -> None:
    """So that it can be undone by whoever comes later."""
    update = of(parts, {SHARES: 7, CPUS: "0-1"})
    await parts.updates.send([update])
    assert journal(parts, update.target.key) == {SHARES: (512, 7, None), CPUS: (None, "0-1", None)}
    entry = parts.journal.get(Level.CONTAINER, update.target.key, SHARES)
    assert entry is not None
    assert entry.plugin == "toy"


async def test_it_is_noted_before_it_is_sent(parts: HookParts) -> None:
    """A process that is killed in between must find it in the journal."""
    update = of(parts, {SHARES: 7})
    stall = parts.node.runtime.stall(METHOD)
    sending = asyncio.create_task(parts.updates.send([update]))
    await stall.entered.wait()
    assert journal(parts, update.target.key) == {SHARES: (512, 7, None)}
    stall.release()
    await sending


async def test_a_second_update_keeps_the_original_and_knows_the_value_before(parts: HookParts) -> None:
    """Should it not come to be, what the container has is still ours."""
    await parts.updates.send([of(parts, {SHARES: 7})])
    update = of(parts, {SHARES: 8})
    await parts.updates.send([update])
    assert journal(parts, update.target.key) == {SHARES: (512, 8, 7)}


async def test_what_somebody_else_asked_for_since_is_the_new_original(parts: HookParts) -> None:
    """Not what was found the first time."""
    update = of(parts, {SHARES: 7})
    await parts.updates.send([update])
    await parts.update(update.target.key, cpu_shares=300)
    await parts.sync.refresh(update.target.key)
    await parts.updates.send([of(parts, {SHARES: 7})])
    assert journal(parts, update.target.key) == {SHARES: (300, 7, None)}
    await parts.updates.send([of(parts, {SHARES: None})])
    assert parts.value(update.target.key, SHARES) == 300


async def test_restoring_sends_what_was_asked_for(parts: HookParts) -> None:
    """What is known of them stays until somebody has seen that they are back."""
    update = of(parts, {SHARES: 7, QUOTA: UNLIMITED})
    await parts.updates.send([update])
    await parts.updates.send([of(parts, {SHARES: None, QUOTA: None})])
    assert parts.sent()[-1] == cri.LinuxContainerResources(cpu_shares=512, cpu_quota=100_000)
    assert len(parts.journal) == 2


async def test_restoring_what_nobody_asked_for_sends_neutral_values() -> None:
    """Zero would mean: leave it."""
    parts = HookParts()
    sandbox = be_pod(parts.node, "batch")
    await parts.sync.resync()
    values: Mapping[Parameter, Value] = {QUOTA: 50_000, Parameter.MEMORY_LIMIT: 1 << 30, CPUS: "0-1"}
    await parts.updates.send([of(parts, values)])
    await parts.updates.send([of(parts, dict.fromkeys(values))])
    assert parts.sent()[-1] == cri.LinuxContainerResources(cpu_quota=-1, memory_limit_in_bytes=-1, cpuset_cpus="0-7")
    assert parts.value(sandbox.containers[0], QUOTA) is UNLIMITED
    await parts.close()


async def test_shares_that_nobody_asked_for_become_the_kernels_own(parts: HookParts) -> None:
    """1024 is what a cgroup begins with."""
    update = of(parts, {SHARES: None})
    await parts.updates.send([update._replace(restored={SHARES: None})])
    assert parts.sent() == [cri.LinuxContainerResources(cpu_shares=1024)]


async def test_a_cleared_set_is_all_that_its_parent_allows() -> None:
    """CRI has no word for clearing one. The journal knows what the container really got."""
    parts = HookParts(FakeNode(FakeKernel(2)))
    sandbox = ls_pod(parts.node, "web")
    parts.node.tree.write(parts.node.pod_directory(sandbox), CPUS, "0-5")
    await parts.sync.resync()
    await parts.updates.send([of(parts, {CPUS: CLEAR, Parameter.CPUSET_MEMS: CLEAR})])
    assert parts.sent() == [cri.LinuxContainerResources(cpuset_cpus="0-5", cpuset_mems="0-1")]
    assert journal(parts, sandbox.containers[0])[CPUS] == (None, "0-5", None)
    await parts.close()


async def test_a_set_of_which_nobody_knows_the_parents_is_left_alone(parts: HookParts) -> None:
    """Nothing is sent for it, and the next round sees that it differs."""
    updates = ContainerUpdates(
        parts.store, parts.call, parts.journal, allowed=lambda _one, _directory: "", refresh=parts.sync.refresh
    )
    await updates.send([of(parts, {CPUS: CLEAR, SHARES: 7})])
    assert parts.sent() == [cri.LinuxContainerResources(cpu_shares=7)]


@pytest.mark.parametrize("version", [1, 2])
async def test_a_set_that_was_cleared_can_be_restored(version: int) -> None:
    """What was asked for is not forgotten because the container has all CPUs now."""
    parts = HookParts(FakeNode(FakeKernel(version)))
    key = ls_pod(parts.node, "web").containers[0]
    await parts.update(key, cpuset_cpus="2-3")
    await parts.sync.resync()
    await parts.updates.send([of(parts, {CPUS: CLEAR})])
    assert parts.value(key, CPUS) == "0-7"
    await parts.updates.send([of(parts, {CPUS: None})])
    assert parts.value(key, CPUS) == "2-3"
    await parts.close()


async def test_a_container_that_went_from_the_store_is_not_put_back(parts: HookParts) -> None:
    """Somebody saw it end meanwhile."""
    update = of(parts, {SHARES: 7})
    parts.store.remove_container(update.target.key)
    assert await parts.updates.send([update]) == {}
    assert update.target.key not in parts.store.containers


# -- errors


async def test_a_container_that_is_gone_is_no_error(parts: HookParts) -> None:
    """It ended a moment ago."""
    parts.node.runtime.fail(METHOD, Code.NOT_FOUND)
    assert await parts.updates.send([of(parts, {SHARES: 7})]) == {}
    assert parts.updates.failed == 0


@pytest.mark.parametrize(
    ("code", "later"),
    [
        (Code.UNKNOWN, False),
        (Code.INVALID_ARGUMENT, False),
        (Code.FAILED_PRECONDITION, False),
        (Code.UNAVAILABLE, True),
        (Code.DEADLINE_EXCEEDED, True),
    ],
)
async def test_every_other_error_is_told(parts: HookParts, code: Code, later: bool) -> None:
    """By container, with its code, and whether it is an opinion about the value at all."""
    parts.node.runtime.fail(METHOD, code, "not now")
    update = of(parts, {SHARES: 7})
    assert await parts.updates.send([update]) == {update.target.key: UpdateRefusal(f"{code.name}: not now", later)}
    assert parts.updates.failed == 1


async def test_a_refused_restore_stays_in_the_journal(parts: HookParts) -> None:
    """It is tried again later."""
    update = of(parts, {SHARES: 7})
    await parts.updates.send([update])
    parts.node.runtime.fail(METHOD, Code.UNAVAILABLE, times=1)
    await parts.updates.send([of(parts, {SHARES: None})])
    assert journal(parts, update.target.key) == {SHARES: (512, 7, None)}


async def test_after_a_refused_update_the_original_is_what_it_was(parts: HookParts) -> None:
    """Though the journal says that another value was tried."""
    parts.node.runtime.fail(METHOD, Code.UNKNOWN, times=1)
    await parts.updates.send([of(parts, {SHARES: 7})])
    update = of(parts, {SHARES: 8})
    await parts.updates.send([update])
    assert journal(parts, update.target.key) == {SHARES: (512, 8, None)}


async def test_one_bad_container_does_not_keep_others_from_theirs(parts: HookParts) -> None:
    """Its error is its own."""
    ls_pod(parts.node, "other")
    await parts.sync.resync()
    parts.node.runtime.fail(METHOD, Code.UNKNOWN, "no", times=1)
    updates = [of(parts, {SHARES: 7}, number) for number in (0, 1)]
    assert list(await parts.updates.send(updates)) == [updates[0].target.key]
    assert parts.value(updates[1].target.key, SHARES) == 7


async def test_some_updates_are_under_way_at_a_time(parts: HookParts) -> None:
    """Not all: a runtime has other things to do."""
    for number in range(11):
        ls_pod(parts.node, f"other-{number}")
    await parts.sync.resync()
    stall = parts.node.runtime.stall(METHOD)
    sending = asyncio.create_task(parts.updates.send([of(parts, {SHARES: 7}, number) for number in range(12)]))
    await parts.node.runtime.wait_for_calls(METHOD, 8)
    assert stall.waiting == 8
    stall.release()
    assert await sending == {}
    assert len(parts.sent()) == 12


async def test_nothing_to_do_is_nothing_done(parts: HookParts) -> None:
    """No call."""
    assert await parts.updates.send([]) == {}
    assert parts.sent() == []


# -- through a relay


async def test_through_a_relay_no_values_are_sent(parts: HookParts) -> None:
    """The relay knows what was asked for, asks us, and the wanted ones come out of that."""
    relay = Relay(parts)
    relay.wanted = {"cpu_shares": 7}
    update = of(parts, {SHARES: 7})
    assert await relay.updates().send([update]) == {}
    assert relay.seen == [cri.LinuxContainerResources()]
    assert parts.value(update.target.key, SHARES) == 7


async def test_the_record_is_looked_at_again_after_an_update_through_a_relay(parts: HookParts) -> None:
    """What came out of the hooks of all, only the runtime knows."""
    relay = Relay(parts)
    relay.wanted = {"cpu_shares": 9}
    update = of(parts, {SHARES: 7})
    refused = await relay.updates().send([update])
    assert list(refused) == [update.target.key]
    assert "cpu.shares is 9 after an update to 7" in refused[update.target.key].text
    assert refused[update.target.key].is_temporary is False  # to be held: whoever is asked after us wants that again
    assert relay.refreshed == [update.target.key]
    assert parts.store.containers[update.target.key].resources.cpu_shares == 9


async def test_a_relay_that_did_not_ask_gets_the_wanted_values(parts: HookParts) -> None:
    """So that nothing depends on a right guess; and they are noted."""
    relay = Relay(parts)
    relay.knows_us = False
    update = of(parts, {SHARES: 7})
    assert await relay.updates().send([update]) == {}
    assert [one.cpu_shares for one in relay.seen] == [0, 7]
    assert parts.value(update.target.key, SHARES) == 7
    assert journal(parts, update.target.key) == {SHARES: (512, 7, None)}


async def test_that_a_relay_does_not_ask_is_told_once(parts: HookParts, caplog: pytest.LogCaptureFixture) -> None:
    """And once more that it does again."""
    relay = Relay(parts)
    updates = relay.updates()
    told = []
    with caplog.at_level(logging.INFO, "interpose.hooks.server.reconcile.cri_updates"):
        for knows_us in (False, False, True, True, False):
            relay.knows_us = knows_us
            caplog.clear()
            await updates.send([of(parts, {SHARES: 7})])
            told.append([one.levelname for one in caplog.records])
    assert told == [["WARNING"], [], ["INFO"], [], ["WARNING"]]


async def test_an_error_through_a_relay_leaves_everything_as_noted(parts: HookParts) -> None:
    """No second try with other values: the call itself failed."""
    relay = Relay(parts)
    parts.node.runtime.fail(METHOD, Code.FAILED_PRECONDITION, "a hook server said no")
    update = of(parts, {SHARES: None})
    parts.journal.note(update.target, SHARES, found=512, written=7, plugin="toy")
    errors = await relay.updates().send([update])
    assert errors == {update.target.key: UpdateRefusal("FAILED_PRECONDITION: a hook server said no", False)}
    assert len(relay.seen) == 1
    assert list(journal(parts, update.target.key)) == [SHARES]


async def test_a_plugin_that_is_not_named_is_noted_as_nobody(parts: HookParts) -> None:
    """It is only for people."""
    update = of(parts, {SHARES: 7})._replace(plugins=_NO_PLUGINS)
    await parts.updates.send([update])
    entry = parts.journal.get(Level.CONTAINER, update.target.key, SHARES)
    assert entry is not None
    assert entry.plugin == ""


async def test_a_value_that_cannot_be_noted_is_not_changed(parts: HookParts, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: nobody would know later what it was."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(parts.journal, "supersede", full)
    refused = await parts.updates.send([of(parts, {SHARES: 7})])
    assert [(one.text, one.is_temporary) for one in refused.values()] == [
        ("journal: [Errno 28] No space left on device", True)
    ]
    assert parts.sent() == []
