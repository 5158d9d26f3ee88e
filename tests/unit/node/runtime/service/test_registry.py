"""Objects by id, and names that are taken."""

import itertools

import pytest

from interpose.net.grpc.status import Code, RpcError
from interpose.node.runtime.service.registry import ContainerEntry, ObjectRegistry, SandboxEntry
from interpose.node.runtime.state.records import ContainerRecord, SandboxRecord, UsedImage
from interpose.testing.pods import container_config, pod_config


@pytest.fixture
def registry() -> ObjectRegistry:
    """An empty one with small numbers as ids."""
    numbers = itertools.count(1)
    return ObjectRegistry(lambda: f"{next(numbers):064x}")


def sandbox(registry: ObjectRegistry, name: str = "web", *, visible: bool = True) -> SandboxEntry:
    """A sandbox in it."""
    config = pod_config(name)
    record = SandboxRecord(id=registry.reserve("sandbox", name), config=config, created_at=1)
    made = SandboxEntry(record=record, visible=visible)
    registry.add_sandbox(made)
    return made


def container(registry: ObjectRegistry, owner: SandboxEntry) -> ContainerEntry:
    """A container in it."""
    config = container_config(owner.record.config, "main")
    record = ContainerRecord(
        id=registry.reserve("container", "main"),
        sandbox_id=owner.id,
        name="main",
        config=config,
        image=UsedImage(id="x"),
        created_at=1,
    )
    made = ContainerEntry(record=record, sandbox=owner)
    registry.add_container(made)
    return made


def test_what_is_there_is_found(registry: ObjectRegistry) -> None:
    """From its adding to its discarding, with its sandbox."""
    pod = sandbox(registry)
    main = container(registry, pod)
    assert registry.sandbox(pod.id) is pod
    assert registry.container(main.id) is main
    assert list(pod.containers.values()) == [main]
    registry.discard_container(main)
    registry.discard_sandbox(pod)
    assert not registry.sandboxes
    assert not registry.containers
    assert not pod.containers


def test_what_is_half_made_is_not_seen(registry: ObjectRegistry) -> None:
    """Neither found nor shown, but its name is taken."""
    pod = sandbox(registry, visible=False)
    assert list(registry.visible_sandboxes()) == []
    with pytest.raises(RpcError, match="NOT_FOUND"):
        registry.sandbox(pod.id)
    with pytest.raises(RpcError, match="ALREADY_EXISTS"):
        registry.reserve("sandbox", pod.record.name)
    pod.visible = True
    assert list(registry.visible_sandboxes()) == [pod]


def test_names_of_sandboxes_and_containers_are_apart(registry: ObjectRegistry) -> None:
    """The same text may be both; a released one is free."""
    first, other = registry.reserve("sandbox", "a"), registry.reserve("container", "a")
    registry.release("sandbox", "a")
    registry.release("sandbox", "a")
    assert len({first, other, registry.reserve("sandbox", "a")}) == 3
    with pytest.raises(RpcError) as caught:
        registry.reserve("container", "a")
    assert caught.value.code is Code.ALREADY_EXISTS


def test_an_id_is_needed(registry: ObjectRegistry) -> None:
    """Nothing is not everything."""
    sandbox(registry)
    for look in (registry.sandbox, registry.container, registry.find_sandbox, registry.find_container):
        with pytest.raises(RpcError, match="must not be empty") as caught:
            look("")
        assert caught.value.code is Code.INVALID_ARGUMENT


def test_a_start_that_several_have_is_refused(registry: ObjectRegistry) -> None:
    """It is not as if there was none; a whole id and a longer start are found."""
    first, second = sandbox(registry), sandbox(registry, "other")
    for look in (registry.sandbox, registry.find_sandbox):
        with pytest.raises(RpcError, match="several sandbox ids begin with '00'") as caught:
            look("00")
        assert caught.value.code is Code.INVALID_ARGUMENT
        assert look(first.id) is first
    main = container(registry, first)
    assert registry.find_container("00") is main
    registry.discard_sandbox(second)
    assert registry.find_sandbox("00") is first
    assert registry.find_sandbox("ff") is None
    assert registry.find_container("ff") is None
