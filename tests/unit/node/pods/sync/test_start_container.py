"""Starting containers: pauses, numbers, configurations."""

from pathlib import Path

import pytest

from interpose.node.pods.spec import RestartPolicy, SecurityContext, VolumeMount
from interpose.node.pods.sync.result import StepReason
from tests.support.node.managed_node import ManagedNode, container, pod


@pytest.fixture
def node(tmp_path: Path) -> ManagedNode:
    return ManagedNode(tmp_path)


def crash(node: ManagedNode) -> None:
    for ids in node.running().values():
        for one in ids:
            node.runtime.exit_container(one, 1)


async def test_a_container_that_keeps_failing_waits_longer_and_longer(node: ManagedNode) -> None:
    """At once, then 10 s after its end, then 20 s, at most five minutes."""
    web = pod()
    await node.sync(web)
    waits = []
    for _ in range(8):
        crash(node)
        result = await node.sync(web)
        if result.retry_after is not None:
            assert [step.reason for step in result.errors] == [StepReason.CRASH_LOOP]
            waits.append(round(result.retry_after))
            node.clock.advance(result.retry_after)
            assert (await node.sync(web)).ok
    assert waits == [10, 20, 40, 80, 160, 300, 300]


async def test_one_that_was_well_for_long_begins_anew(node: ManagedNode) -> None:
    """Ten minutes."""
    web = pod()
    for _ in range(2):
        await node.sync(web)
        crash(node)
    node.clock.advance(10)
    assert (await node.sync(web)).ok
    node.clock.advance(601)
    crash(node)
    assert (await node.sync(web)).ok


async def test_collecting_forgets_those_that_are_well(node: ManagedNode) -> None:
    """Nothing grows without a bound."""
    web = pod()
    await node.sync(web)
    crash(node)
    await node.sync(web)
    assert node.manager.backoff.keys
    node.clock.advance(601)
    await node.manager.collect_garbage([web.uid])
    assert not node.manager.backoff.keys


async def test_the_number_goes_on_from_the_last_one(node: ManagedNode) -> None:
    """It is the attempt, in the annotations, and in the name of the log."""
    web = pod()
    await node.sync(web)
    crash(node)
    await node.sync(web)
    config = node.runtime.requests_of("CreateContainer")[-1].config
    assert (config.metadata.attempt, config.log_path) == (1, "main/1.log")
    assert config.annotations["io.kubernetes.container.restartCount"] == "1"


async def test_a_runtime_that_forgot_everything_has_left_logs(node: ManagedNode) -> None:
    """After a reboot."""
    folder = node.log_root / "default_web_1234" / "main"
    folder.mkdir(parents=True)
    for name in ("0.log", "4.log", "4.log.20260101-000000", "other"):
        (folder / name).write_text("")
    await node.sync(pod())
    assert node.runtime.requests_of("CreateContainer")[0].config.metadata.attempt == 5


@pytest.mark.parametrize(
    "one",
    [
        container(volume_mounts=(VolumeMount(name="missing", mount_path="/data"),)),
        container(security=SecurityContext(run_as_non_root=True)),
    ],
)
async def test_what_cannot_be_configured_is_not_created(node: ManagedNode, one: object) -> None:
    """A volume that is not there, an image that runs as root."""
    result = await node.sync(pod(one))  # type: ignore[arg-type]
    assert [step.reason for step in result.errors] == [StepReason.CREATE_CONFIG]
    assert node.calls("CreateContainer") == []


async def test_the_same_sandbox_configuration_goes_with_each_container(node: ManagedNode) -> None:
    """Made anew, and still the same."""
    web = pod(container("a"), container("b"))
    await node.sync(web)
    [sandbox] = node.runtime.requests_of("RunPodSandbox")
    for request in node.runtime.requests_of("CreateContainer"):
        assert request.sandbox_config == sandbox.config


def text_of(path: str) -> str:
    return Path(path).read_text()


async def test_addresses_of_the_new_sandbox_reach_the_containers(node: ManagedNode) -> None:
    """By their hosts file."""
    web = pod()
    await node.sync(web)
    [request] = node.runtime.requests_of("CreateContainer")
    [hosts] = [mount for mount in request.config.mounts if mount.container_path == "/etc/hosts"]
    assert "10.88.0.2" in text_of(hosts.host_path)


async def test_a_container_killed_by_a_rule_waits_even_if_it_was_removed(node: ManagedNode) -> None:
    """The pause is the container's, not its remains'."""
    from interpose.node.pods.spec import RestartRule

    rule = RestartRule(action="RestartAllContainers", operator="In", codes=(1,))
    web = pod(container(restart_policy=RestartPolicy.NEVER, restart_rules=(rule,)))
    await node.sync(web)
    crash(node)
    assert (await node.sync(web)).ok
    crash(node)
    assert [step.reason for step in (await node.sync(web)).errors] == [StepReason.CRASH_LOOP]
    assert not node.runtime.containers
    assert [step.reason for step in (await node.sync(web)).errors] == [StepReason.CRASH_LOOP]
    node.clock.advance(10)
    assert (await node.sync(web)).ok
