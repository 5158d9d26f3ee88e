"""Books over a fake runtime: following what happens to containers."""

import logging
from dataclasses import replace

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import ContainerState
from interpose.core.policy.decision import Assignment
from interpose.core.policy.request import Amounts, Key, Request
from interpose.testing.eventually import eventually
from tests.support.policy.node import PolicyNode

ALL = "0-15"
UPDATE = "UpdateContainerResources"


# -- containers come and go


async def test_newcomers_and_those_that_end(bare: PolicyNode) -> None:
    """The store tells of both."""
    shared = bare.add("web", 100, "burstable")
    await bare.start()
    own = bare.add("db", 2000)
    await bare.sync.resync()
    await bare.in_step()
    assert (bare.cpus(own), bare.cpus(shared)) == ("2-3", "0-1,4-15")
    bare.store.put_container(replace(bare.store.containers[own], state=ContainerState.EXITED))
    await bare.in_step()
    assert bare.cpus(shared) == ALL
    bare.store.remove_container(own)  # known to be gone already
    assert bare.own == []


async def test_drift_is_corrected(bare: PolicyNode) -> None:
    """What a container turns out to have is not what it was told."""
    own = bare.add("db", 2000)
    await bare.start()
    await bare.in_step()
    bare.runtime.containers[own].resources.cpuset_cpus = ALL
    await bare.sync.refresh(own)
    await bare.in_step()
    assert bare.cpus(own) == "2-3"


async def test_books_that_fail_do_not_hurt_the_store(
    bare: PolicyNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Told, and that is all."""
    own = bare.add("db", 2000)
    await bare.start()
    monkeypatch.setattr(bare.tracker.updaters, "observe", None)
    with caplog.at_level(logging.ERROR, "interpose"):
        bare.store.put_container(replace(bare.store.containers[own], attempt=0, annotations={"x": "y"}))
    assert "Failed to record a change" in caplog.text


async def test_one_the_runtime_does_not_know_is_released(bare: PolicyNode) -> None:
    """It was removed behind our back, and an update tells."""
    gone, own = bare.add("web", 100, "burstable"), bare.add("db", 2000)
    await bare.start()
    await bare.in_step()
    bare.runtime.state.remove_container(bare.runtime.containers[gone])
    bare.tracker.release([bare.tracker.allocations.by_id[own]])
    bare.tracker.updaters.schedule(tuple(bare.tracker.allocations.by_key))
    await eventually(lambda: not bare.tracker.allocations.by_key, "the books to be empty")


# -- creates


def _booked(bare: PolicyNode, container_id: str) -> Key:
    """A create that is booked, of a container that the store does not know yet."""
    container = bare.runtime.containers[container_id]
    key = Key(container.sandbox_id, container.config.metadata.name)
    bare.tracker.allocations.allocate(Request(key=key, qos=KubeQos.GUARANTEED, amounts=Amounts(milli=2000)))
    return key


async def test_a_create_in_doubt_is_settled_by_the_store(bare: PolicyNode) -> None:
    """There it is: it is confirmed with what it has, and corrected."""
    await bare.start()
    made = bare.add("db", 2000)
    key = _booked(bare, made)
    bare.tracker.mark_create_pending(key)
    assert key in bare.tracker.creates
    await bare.sync.resync()
    assert key not in bare.tracker.creates
    assert bare.tracker.allocations.by_id == {made: key}
    await bare.in_step()
    assert bare.cpus(made) == "2-3"


async def test_a_create_in_doubt_that_is_nowhere_is_released(bare: PolicyNode) -> None:
    """Not at the first look: the store may be about to hear of it."""
    await bare.start()
    key = Key("pod", "lost")
    bare.tracker.allocations.allocate(Request(key=key, qos=KubeQos.GUARANTEED, amounts=Amounts(milli=2000)))
    bare.tracker.mark_create_pending(key)
    bare.tracker.mark_create_pending(Key("pod", "who"))
    bare.reconciler.tick()
    assert bare.own == ["2-3"]
    bare.reconciler.tick()
    assert bare.own == []
    assert key not in bare.tracker.creates


async def test_one_that_was_made_and_has_ended_is_released_too(bare: PolicyNode) -> None:
    """It needs no CPUs any more."""
    await bare.start()
    made = bare.add("db", 2000)
    bare.runtime.exit_container(made, 1)
    key = _booked(bare, made)
    bare.tracker.mark_create_pending(key)
    await bare.sync.resync()
    bare.reconciler.tick()
    bare.reconciler.tick()
    assert bare.own == []


async def test_as_long_as_the_store_waits_for_it_nothing_is_settled(bare: PolicyNode) -> None:
    """Its settler knows best."""
    await bare.start()
    made = bare.add("db", 2000)
    await bare.sync.resync()
    container = bare.store.containers[made]
    bare.store.remove_container(made)
    key = _booked(bare, made)
    bare.tracker.mark_create_pending(key)
    barriers = bare.store.pending.add(replace(container, id=""), pod_uid="u")
    assert barriers is None
    for _ in range(5):
        bare.reconciler.tick()
    assert key in bare.tracker.creates


async def test_what_is_confirmed_after_it_was_released_is_not_ours(bare: PolicyNode) -> None:
    """Its pod went meanwhile."""
    await bare.start()
    bare.tracker.confirm(Key("pod", "late"), "id", Assignment(cpus=CpuSet.parse("2")))
    assert not bare.tracker.updaters.by_key
    assert not bare.tracker.allocations.by_id


async def test_who_is_in_the_way_of_a_new_container(bare: PolicyNode) -> None:
    """Whoever may have what becomes its own; of what it shares, only who has it alone."""
    own, shared = bare.add("db", 4000), bare.add("web", 100, "burstable")
    await bare.start()
    await bare.in_step()
    keys = {name: bare.tracker.allocations.by_id[one] for name, one in (("own", own), ("shared", shared))}
    request = Request(key=Key("pod", "new"), qos=KubeQos.GUARANTEED, amounts=Amounts(milli=2000))
    bare.tracker.allocations.allocate(request)
    assert bare.tracker.conflicting(request.key) == [keys["shared"]]
    sharing = Request(key=Key("pod", "sharing"))
    bare.tracker.allocations.allocate(sharing)
    assert bare.tracker.conflicting(sharing.key) == []
    bare.tracker.updaters.by_key[keys["own"]].written = None
    assert bare.tracker.conflicting(sharing.key) == [keys["own"]]


async def test_one_that_was_not_started_is_in_nobodys_way(bare: PolicyNode) -> None:
    """It is on no CPU. One that is being started may be."""
    shared = bare.add("web", 100, "burstable")
    await bare.start()
    await bare.in_step()
    request = Request(key=Key("pod", "new"), qos=KubeQos.GUARANTEED, amounts=Amounts(milli=2000))
    bare.tracker.allocations.allocate(request)
    bare.store.on_container = None
    bare.store.put_container(replace(bare.store.containers[shared], state=ContainerState.CREATED))
    assert bare.tracker.conflicting(request.key) == []
    with bare.starts.starting(shared):
        assert bare.tracker.conflicting(request.key) == [bare.tracker.allocations.by_id[shared]]


async def test_a_start_of_one_that_is_found_waiting_may_be_in_flight(bare: PolicyNode) -> None:
    """A relay before us may have sent it; when it runs, what was written may have had no effect."""
    shared = bare.add("web", 100, "burstable")
    doubted: list[str] = []
    bare.starts.on_doubt = doubted.append
    bare.runtime.containers[shared].state = cri.CONTAINER_CREATED
    await bare.start()
    assert doubted == [shared]
    bare.starts.settle(shared, runs=True)
    bare.tracker.on_update_lost("nobody")
    await bare.in_step()
    assert bare.tracker.updaters.repairs == {"start": 1}
    assert bare.runtime.calls["UpdateContainerResources"] == 1


async def test_retired_books_follow_nothing(bare: PolicyNode) -> None:
    """They stay as they were."""
    own = bare.add("db", 2000)
    await bare.start()
    await bare.in_step()
    bare.tracker.retire()
    assert bare.tracker.retired
    bare.store.remove_container(own)
    bare.reconciler.tick()
    assert bare.own == ["2-3"]


# -- twins: Docker makes containers of the same name and attempt


def _twin(bare: PolicyNode, of: str) -> str:
    """A container with the name and attempt of another one, made at the runtime."""
    elder = bare.runtime.containers[of]
    config = cri.ContainerConfig()
    config.CopyFrom(elder.config)
    config.metadata.name = f"{config.metadata.name}-{len(bare.runtime.containers)}"
    made = bare.runtime.state.create_container(bare.runtime.sandboxes[elder.sandbox_id], config, elder.image)
    made.config.metadata.name = elder.config.metadata.name
    bare.runtime.state.start_container(made)
    return made.id


async def test_twins_found_at_the_start_share_nothing(bare: PolicyNode) -> None:
    """Each is in the books, and goes alone."""
    first = bare.add("db", 2000)
    second = _twin(bare, first)
    await bare.start()
    await bare.in_step()
    assert sorted(bare.own) == sorted((bare.cpus(first), bare.cpus(second))) == ["2-3", "4-5"]
    for one, left in ((first, [bare.cpus(second)]), (second, [])):
        bare.runtime.exit_container(one, 1)
        await bare.sync.resync()
        assert bare.own == left


async def test_twins_that_come_around_us_share_nothing(bare: PolicyNode) -> None:
    """One by one, and several at once."""
    first = bare.add("db", 2000)
    await bare.start()
    others = [_twin(bare, first), _twin(bare, first)]
    await bare.sync.resync()
    await bare.in_step()
    found = [bare.cpus(container_id) for container_id in (first, *others)]
    assert sorted(bare.own) == sorted(found) == ["2-3", "4-5", "6-7"]
    bare.tracker.release([bare.tracker.allocations.by_id[one] for one in others])
    for _ in range(10):
        bare.reconciler.tick()  # the books are compared with the store
    assert len(bare.own) == 3
    assert set(bare.tracker.allocations.by_id) == {first, *others}


async def test_key_of_a_twin_that_ended_is_free(bare: PolicyNode) -> None:
    """The next one of that name gets it."""
    first = bare.add("db", 100)
    second = _twin(bare, first)
    await bare.start()
    for one in (first, second):
        key = bare.tracker.allocations.by_id[one]
        assert bare.tracker.free_key(key._replace(duplicate=0)).duplicate == 2
        bare.runtime.exit_container(one, 0)
        await bare.sync.resync()
        assert bare.tracker.free_key(key._replace(duplicate=0)) == key
        later = _twin(bare, first)
        await bare.sync.resync()
        assert bare.tracker.allocations.by_id[later] == key


async def test_a_twin_that_was_made_at_the_same_time_is_booked_when_it_is_known(bare: PolicyNode) -> None:
    """Both were created under one booking: it is the first one's."""
    await bare.start()
    first = bare.add("db", 2000)
    key = _booked(bare, first)
    second = _twin(bare, first)
    given = bare.tracker.allocations.assignment(key)
    bare.tracker.confirm(key, first, given)
    await bare.sync.container(first)
    bare.tracker.confirm(key, second, given)
    assert bare.tracker.allocations.by_id == {first: key}
    bare.tracker.confirm(key, first, given)  # told twice
    await bare.sync.container(second)
    assert bare.tracker.allocations.by_id == {first: key, second: key.next}
    await bare.in_step()
    assert (bare.cpus(first), bare.cpus(second)) == ("2-3", "4-5")


async def test_a_twin_in_doubt_is_waited_for(bare: PolicyNode) -> None:
    """What the store settles by name may be about the other one."""
    first = bare.add("db", 2000)
    await bare.start()
    key = bare.tracker.free_key(bare.tracker.allocations.by_id[first])
    bare.tracker.allocations.allocate(Request(key=key, qos=KubeQos.GUARANTEED, amounts=Amounts(milli=2000)))
    bare.tracker.mark_create_pending(key)
    for _ in range(11):
        assert key in bare.tracker.creates
        bare.reconciler.tick()
    bare.reconciler.tick()
    assert key not in bare.tracker.creates
    assert bare.own == ["2-3"]


async def test_a_twin_in_doubt_turns_up(bare: PolicyNode) -> None:
    """It has what was booked for it."""
    first = bare.add("db", 2000)
    await bare.start()
    key = bare.tracker.free_key(bare.tracker.allocations.by_id[first])
    bare.tracker.allocations.allocate(Request(key=key, qos=KubeQos.GUARANTEED, amounts=Amounts(milli=2000)))
    bare.tracker.mark_create_pending(key)
    second = _twin(bare, first)
    await bare.sync.resync()
    assert bare.tracker.allocations.by_id[second] == key
    await bare.in_step()
    assert (bare.cpus(first), bare.cpus(second)) == ("2-3", "4-5")
