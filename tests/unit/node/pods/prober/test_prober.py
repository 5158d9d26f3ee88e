"""Containers are asked when it is time, over all four ways, and what they say becomes health."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.net.grpc.status import Code
from interpose.node.pods.clock import Clocks
from interpose.node.pods.events.file import read_events
from interpose.node.pods.prober.prober import ProbeManager, Prober, ProbeUnavailableError
from interpose.node.pods.spec import ExecAction, GrpcAction, HttpAction, Port, Probe, TcpAction
from interpose.testing.eventually import eventually
from tests.support.node.kept_node import KeptNode
from tests.support.node.managed_node import container, pod

ONE = Probe(action=ExecAction(command=("true",)), period=1, failure_threshold=1)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[KeptNode]:
    made = KeptNode(tmp_path)
    yield made
    await made.keeper.close()


async def test_the_other_probes_wait_for_the_startup_probe(node: KeptNode) -> None:
    """Readiness is asked at once when it has succeeded."""
    web = pod(container(startup=Probe(action=ONE.action, initial_delay=10), readiness=ONE))
    await node.keeps(web)
    await node.pass_time(5)
    assert node.runtime.calls["ExecSync"] == 0
    assert not node.state(web).ready
    await node.pass_time(5)
    assert node.state(web).ready


async def test_a_container_that_does_not_start_is_restarted(node: KeptNode) -> None:
    """The startup probe decides."""
    probe = Probe(action=ExecAction(command=("false",)), period=1, failure_threshold=3)
    await node.keeps(pod(container(startup=probe)))
    assert node.starts() == 1
    await node.pass_time(1)
    assert node.starts() == 2


async def test_a_probe_that_could_not_be_asked_changes_nothing(node: KeptNode) -> None:
    """The runtime's trouble is not the container's."""
    web = pod(container(liveness=ONE))
    await node.keeps(web)
    node.runtime.fail("ExecSync", Code.UNAVAILABLE)
    await node.pass_time(5)
    assert node.starts() == 1


async def test_what_is_wrong_can_be_read(node: KeptNode) -> None:
    """For who waits for a pod."""
    web = pod(container(readiness=Probe(action=ExecAction(command=("sh", "-c", "exit 3")))))
    await node.keeps(web)
    assert node.keeper.probes.words(web.uid, "main") == "command ended with exit code 3"
    assert node.keeper.probes.words("nobody", "main") == ""


async def test_an_edited_probe_begins_anew(node: KeptNode) -> None:
    """The row of results before it does not count."""
    web = pod(container(readiness=ONE))
    await node.keeps(web)
    assert node.state(web).ready
    await node.keeps(pod(container(readiness=Probe(action=ONE.action, initial_delay=100))))
    assert not node.state(web).ready


async def test_nobody_is_asked_about_a_pod_that_left(node: KeptNode) -> None:
    """Its tracks go with it."""
    await node.keeps(pod(container(liveness=ONE)))
    await node.keeps()
    await node.pass_time(1)
    assert node.keeper.probes.next_due() is None


async def test_the_next_asking_is_known(node: KeptNode) -> None:
    """So that a keeper can rest until then."""
    await node.keeps(pod(container(liveness=Probe(action=ONE.action, initial_delay=50))))
    assert node.keeper.probes.next_due() == pytest.approx(node.clock() / 1e9 + 49, abs=2)


async def test_a_pod_without_an_address_is_not_asked(node: KeptNode) -> None:
    """Whoever would answer is somebody else."""
    prober = Prober(node.manager.services)
    with pytest.raises(ProbeUnavailableError, match="the pod has no address"):
        await prober.ask(Probe(action=TcpAction(port=1)), container(), "c", ())


@pytest.mark.parametrize("step", [-3600, 3600])
async def test_a_clock_that_is_set_changes_nothing(node: KeptNode, step: int) -> None:
    """They are asked once in a period, by the time that has passed."""
    web = pod(container(liveness=Probe(action=ONE.action, period=10)))
    await node.keeps(pod())
    status = await node.status(web)
    day, passed = node.clock() / 1e9, 50.0
    clocks = Clocks(now=lambda: int(day * 1e9), elapsed=lambda: passed)
    probes = ProbeManager(Prober(node.manager.services), node.manager.node, clocks, lambda _uid: None)

    async def asked() -> int:
        probes.update(web, status)
        probes.tick()
        await eventually(lambda: not probes.busy, "the answer")
        return node.runtime.calls["ExecSync"]

    assert await asked() == 1
    day, passed = day + step, passed + 9
    assert await asked() == 1
    passed += 1
    assert probes.next_due() == passed
    assert await asked() == 2
    await probes.close()


async def test_exec_timeouts_are_failures_and_other_errors_are_none(node: KeptNode) -> None:
    """The container was asked and did not answer, or nobody asked it."""
    await node.keeps(pod())
    (container_id,) = node.running()["main"]
    prober = Prober(node.manager.services)
    node.runtime.fail("ExecSync", Code.DEADLINE_EXCEEDED, times=1)
    assert await prober.ask(ONE, container(), container_id, ()) == "command did not end within 1 s"
    node.runtime.fail("ExecSync", Code.UNKNOWN, times=1)
    with pytest.raises(ProbeUnavailableError):
        await prober.ask(ONE, container(), container_id, ())


@pytest.mark.parametrize(
    "action",
    [
        TcpAction(port=1),
        HttpAction(port="web"),
        GrpcAction(port=1),
        HttpAction(port="nosuch"),
    ],
)
async def test_a_port_where_nobody_is_is_a_failure(node: KeptNode, action: TcpAction | HttpAction | GrpcAction) -> None:
    """Over the network, too, with the words for it."""
    prober = Prober(node.manager.services)
    asked = container(ports=(Port(container_port=1, name="web"),))
    assert await prober.ask(Probe(action=action), asked, "id", ("127.0.0.1",))


async def test_each_failure_is_an_event(node: KeptNode) -> None:
    """Equal ones are counted."""
    web = pod(container(readiness=Probe(action=ExecAction(command=("false",)), period=1)))
    await node.keeps(web)
    await node.pass_time(3)
    await node.manager.events.flush()
    [failed] = [one for one in read_events(node.dirs.folder(web.uid)) if one.reason == "Unhealthy"]
    assert (failed.container, failed.message) == (
        "main",
        "Readiness probe failed: command ended with exit code 1",
    )
    assert failed.count >= 3
