"""The beginning of a policy under trouble: a runtime that is not ready, a broken record, a read-only disk."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

from interpose.core.policy.api import Policy
from interpose.host.atomic_file import replace_file
from interpose.net.grpc.status import Code, RpcError
from interpose.resmgr.state.state import State, encode
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack

STATIC: dict[str, Any] = {"name": "static", "reserved": "cpu=cpuset:0"}
MACHINE = "n4c16"


def own(stack: PolicyStack) -> list[str]:
    """Who has which CPUs alone."""
    policy: Policy = stack.tracker.allocations.policy
    return sorted(str(grant.exclusive) for grant in policy.state.grants.values() if grant.exclusive)


async def settled(folder: Path) -> tuple[FakeRuntime, str, str]:
    """A runtime with a container that has CPUs of its own and one that shares: their ids."""
    runtime = FakeRuntime()
    async with policy_stack(folder, machine(MACHINE), runtime=runtime, **STATIC) as stack:
        db, web = await stack.run("db", 4000), await stack.run("web", 100, "burstable")
    return runtime, db, web


@pytest.mark.parametrize("method", ["ListPodSandbox", "ListContainers", "PodSandboxStatus", "ContainerStatus"])
async def test_one_failed_answer_at_the_start_is_not_the_end(tmp_path: Path, method: str) -> None:
    """A runtime that has just begun to listen refuses for a moment: it is asked again, whoever else asks it."""
    runtime, db, _ = await settled(tmp_path)
    runtime.fail(method, Code.UNKNOWN, "server is not initialized yet", times=1)
    async with policy_stack(tmp_path, None, runtime=runtime, **STATIC) as stack:
        assert own(stack) == [stack.cpus(db)]


class _Breakable(FakeRuntime):
    """The same node, but one of its containers cannot be looked at."""

    def __init__(self, other: FakeRuntime, broken: str) -> None:
        self.__dict__.update(other.__dict__)
        self.broken = broken

    async def call(self, method: str, request: Message, *, timeout: float | None = None) -> Any:
        """The spec of the container is damaged on the runtime's disk."""
        if method == "ContainerStatus" and getattr(request, "container_id", "") == self.broken:
            raise RpcError(Code.UNKNOWN, "failed to load the spec")
        return await super().call(method, request, timeout=timeout)


async def test_one_broken_container_does_not_keep_the_policy_from_others(tmp_path: Path) -> None:
    """What is known is taken over after a while, and the status names the culprit; later it is adopted."""
    settled_runtime, db, web = await settled(tmp_path)
    runtime = _Breakable(settled_runtime, web)
    async with policy_stack(tmp_path, None, runtime=runtime, **STATIC) as stack:
        assert own(stack) == [stack.cpus(db)]
        assert web not in stack.tracker.allocations.by_id
        await eventually(lambda: any(web in one for one in stack.policy.problems()), "the culprit to be named")
        runtime.broken = ""
        await eventually(lambda: web in stack.tracker.allocations.by_id, "the other one to be adopted")


async def test_nobody_gets_remembered_cpus_before_there_are_books(tmp_path: Path) -> None:
    """The runtime does not list, but creates: the container gets what nobody is known to have alone."""
    runtime, db, _ = await settled(tmp_path)
    runtime.fail("ListPodSandbox", Code.UNKNOWN, "not now")
    async with policy_stack(tmp_path, None, runtime=runtime, ready=False, **STATIC) as stack:
        assert stack.policy.problems()[0].startswith("running containers are not known yet")
        new = await stack.run("new", 1000)
        assert stack.cpus(db) == "4-7"
        assert stack.cpus(new) == "0-3,8-15"
        runtime.clear("ListPodSandbox")
        await eventually(stack.tracker.ready.is_set, "the books")
        await eventually(lambda: len(own(stack)) == 2, "the new one to be taken over")


async def test_a_file_that_changed_before_there_were_books_counts_when_they_are_there(tmp_path: Path) -> None:
    """Nobody has to touch it again."""
    runtime, _, _ = await settled(tmp_path)
    file = tmp_path / "policy.yaml"
    text = "policy: {{Active: {0}, ReservedResources: {{CPU: 1}}}}\n"
    file.write_text(text.format("static"))
    file.chmod(0o644)
    runtime.fail("ListPodSandbox", Code.UNKNOWN, "not now")
    async with policy_stack(tmp_path, None, runtime=runtime, ready=False, config=str(file)) as stack:
        file.write_text(text.format("static-plus"))
        await eventually(
            lambda: "has not listed its containers yet" in " ".join(stack.policy.problems()),
            "the change to be put off",
        )
        runtime.clear("ListPodSandbox")
        await eventually(stack.tracker.ready.is_set, "the books")
        stack.tick()
        await eventually(lambda: stack.tracker.configuration.policy == "static-plus", "the change to count")
        await eventually(lambda: not stack.policy.problems(), "no problem to be left")


async def test_a_successor_has_what_the_agent_sent_though_the_disk_has_not(tmp_path: Path) -> None:
    """What only the predecessor knew counts more than the state file."""
    runtime = FakeRuntime()
    socket = str(tmp_path / "config.sock")
    async with policy_stack(tmp_path, machine(MACHINE), runtime=runtime, config_socket=socket) as stack:
        assert stack.policy._applier is not None
        await stack.policy._applier.apply_agent_config(
            {"policy": "Active: static\nReservedResources: {CPU: 1}\n"}, "n1"
        )
        db = await stack.run("db", 2000)
        cpus, memory = stack.cpus(db), stack.parts.memory()
    (tmp_path / "state/policy-state.json").unlink()
    async with policy_stack(tmp_path, None, runtime=runtime, config_socket=socket, memory=memory) as stack:
        assert stack.tracker.configuration.policy == "static"
        assert (stack.cpus(db), own(stack)) == (cpus, [cpus])


async def test_the_first_container_under_a_new_policy_passes_it(tmp_path: Path) -> None:
    """Also while everybody is still being moved: from `none` to another policy, nobody slips through."""
    runtime = FakeRuntime()
    async with policy_stack(tmp_path, machine(MACHINE), runtime=runtime, config_socket=str(tmp_path / "c")) as stack:
        await stack.run("before", 100, "burstable")
        stall = runtime.stall("UpdateContainerResources")
        assert stack.policy._applier is not None
        sent = {"policy": "Active: static\nReservedResources: {CPU: 1}\n"}
        change = stack.tracker.tasks.spawn(stack.policy._applier.apply_agent_config(sent, "n1"), name="agent")
        await runtime.wait_for_calls("UpdateContainerResources")
        pod = await stack.pod("db", "besteffort")
        container = await stack.create(pod)
        assert stack.cpus(container) == "0-15"
        stall.release()
        await change


async def test_a_leftover_that_cannot_be_removed_does_not_stop_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk may be read-only."""
    path = tmp_path / "state/policy-state.json"
    replace_file(str(path), encode(State(policy="none")))
    unlink = Path.unlink

    def refuse(self: Path, missing_ok: bool = False) -> None:
        if self == path:
            raise OSError(30, "Read-only file system")
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    async with policy_stack(tmp_path, machine(MACHINE)) as stack:
        assert stack.tracker.configuration.policy == "none"
    assert path.exists()


async def test_a_config_socket_that_cannot_be_opened_is_tried_again(tmp_path: Path) -> None:
    """At the start that is an error; later, when a predecessor has left it, everything else goes on meanwhile."""
    folder = tmp_path / "run"
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        stack.policy._settings = replace(stack.policy._settings, config_socket=str(folder / "c.sock"))
        folder.write_text("in the way")
        stack.tick()
        folder.unlink()
        folder.mkdir()
        stack.tick()
        await eventually((folder / "c.sock").exists, "the socket")
