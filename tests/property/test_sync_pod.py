"""From whatever a runtime is in, repeated rounds bring a pod to what its manifest says, and then do nothing.

The runtime is brought into its state by operations at random, as if other managers had been at work and had died: pods
of older manifests, sandboxes that are gone, containers that ended, answers that were lost.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from interpose.core.model.pod import ContainerState
from interpose.net.grpc.status import Code, RpcError
from interpose.node.pods.spec import ContainerSpec, PodSpec, PullPolicy, RestartPolicy
from interpose.node.pods.status.phase import pod_phase
from interpose.node.pods.sync.restart_policy import is_sidecar, policy_of
from tests.support.node.managed_node import MUTATING, ManagedNode, container, pod

IMAGES = ("docker.io/library/busybox:1", "docker.io/library/busybox:2")
NAMES = ("a", "b", "c")
INIT_NAMES = ("x", "y")


def containers(names: Sequence[str], *, init: bool = False) -> st.SearchStrategy[tuple[ContainerSpec, ...]]:
    one = st.builds(
        container,
        name=st.just(""),
        image=st.sampled_from(IMAGES),
        pull_policy=st.sampled_from(PullPolicy) if not init else st.just(PullPolicy.IF_NOT_PRESENT),
        restart_policy=st.sampled_from((None, RestartPolicy.ALWAYS) if init else (None, *RestartPolicy)),
    )
    chosen = st.lists(one, min_size=0 if init else 1, max_size=len(names))
    return chosen.map(lambda found: tuple(replace(c, name=names[i]) for i, c in enumerate(found)))


PODS = st.builds(
    lambda mains, inits, policy, host: pod(
        *mains, init_containers=inits, restart_policy=policy, host_network=host, termination_grace_period=0
    ),
    containers(NAMES),
    containers(INIT_NAMES, init=True),
    st.sampled_from(RestartPolicy),
    st.booleans(),
)


@dataclass(frozen=True)
class Sync:
    """A round of a manager, of this or of an older manifest; maybe one that dies at its n-th changing call."""

    pod: PodSpec
    dies_at: int | None
    after: bool


@dataclass(frozen=True)
class Exit:
    """A container ends."""

    index: int
    code: int


@dataclass(frozen=True)
class StopSandbox:
    """A sandbox dies."""

    index: int


@dataclass(frozen=True)
class Remove:
    """Somebody removes a container, or a sandbox with all that is in it."""

    index: int
    sandbox: bool


@dataclass(frozen=True)
class Collect:
    """Garbage is collected."""


Operation = Sync | Exit | StopSandbox | Remove | Collect
INDEX = st.integers(0, 9)
OPERATIONS = st.lists(
    st.one_of(
        st.builds(Sync, PODS, st.one_of(st.none(), st.integers(0, 6)), st.booleans()),
        st.builds(Exit, INDEX, st.sampled_from((0, 1))),
        st.builds(StopSandbox, INDEX),
        st.builds(Remove, INDEX, st.booleans()),
        st.just(Collect()),
    ),
    max_size=8,
)


class Lossy:
    """Fails the n-th changing call and all after it: before the work, or once after it."""

    def __init__(self, node: ManagedNode, at: int | None, *, after: bool) -> None:
        self._node = node
        self._left = at
        self._after = after

    async def call(self, method: str, request: Any, *, timeout: float | None = None) -> Any:
        if method in MUTATING and self._left is not None:
            self._left -= 1
            if self._left < 0:
                if self._after and self._left == -1:
                    with contextlib.suppress(RpcError):
                        await self._node.runtime.call(method, request)
                raise RpcError(Code.UNAVAILABLE, "connection lost")
        return await self._node.runtime.call(method, request)

    stream = None


async def apply(node: ManagedNode, operation: Operation) -> None:
    runtime = node.runtime
    node.clock.advance(400)
    match operation:
        case Sync():
            node.caller = Lossy(node, operation.dies_at, after=operation.after)  # type: ignore[assignment]
            node.restart()
            await node.sync(operation.pod)
            node.caller = runtime
            node.restart()
        case Exit():
            if runtime.containers:
                one = list(runtime.containers)[operation.index % len(runtime.containers)]
                runtime.exit_container(one, operation.code)
        case StopSandbox():
            if runtime.sandboxes:
                runtime.state.stop_sandbox(list(runtime.sandboxes.values())[operation.index % len(runtime.sandboxes)])
        case Remove():
            objects: dict[str, Any] = dict(runtime.sandboxes if operation.sandbox else runtime.containers)
            if objects:
                found = list(objects.values())[operation.index % len(objects)]
                (runtime.state.remove_sandbox if operation.sandbox else runtime.state.remove_container)(found)
        case Collect():
            await node.manager.collect_garbage(["1234"])


def end_inits(node: ManagedNode, wanted: PodSpec) -> None:
    """Init containers do their work and end well."""
    names = {one.name for one in wanted.init_containers if not is_sidecar(one)}
    for one in list(node.runtime.containers.values()):
        if one.config.metadata.name in names:
            node.runtime.exit_container(one.id, 0)


async def converge(node: ManagedNode, wanted: PodSpec) -> None:
    for image in IMAGES:
        node.runtime.images.pull(image, _no_auth())
    await node.settle(wanted, rounds=40, between=lambda: end_inits(node, wanted))
    node.forget_calls()
    await check(node, wanted)
    # Once more, a new manager, after a collection: still nothing to do.
    await node.manager.collect_garbage([wanted.uid])
    node.forget_calls()
    node.restart()
    assert (await node.sync(wanted)).steps == ()
    assert node.calls() == []
    await check(node, wanted)
    assert (await node.manager.remove_pod(await node.found(wanted), wanted)).ok
    assert not node.runtime.containers
    assert not node.runtime.sandboxes


async def check(node: ManagedNode, wanted: PodSpec) -> None:
    """What runs is what should, once, in one sandbox."""
    status = await node.status(wanted)
    running = [one for one in status.containers if one.state is ContainerState.RUNNING]
    names = [one.name for one in running]
    assert len(names) == len(set(names))
    known = {one.name: one for one in (*wanted.containers, *wanted.init_containers)}
    assert set(names) <= set(known)
    ready = [one for one in status.sandboxes if one.ready]
    assert len(ready) <= 1
    assert {one.sandbox_id for one in running} <= {one.id for one in ready}
    for name in names:
        [found] = [one for one in running if one.name == name]
        assert found.image == known[name].image
    if wanted.restart_policy is RestartPolicy.ALWAYS:
        lasting = {one.name for one in wanted.containers if policy_of(wanted, one) is RestartPolicy.ALWAYS}
        missing = lasting - set(names)
        assert not missing, (missing, pod_phase(wanted, status))


def _no_auth() -> Any:
    from interpose.cri.messages import cri

    return cri.AuthConfig()


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


@settings(deadline=None, max_examples=150)
@given(OPERATIONS, PODS)
def test_every_state_leads_to_the_wanted_one_and_then_to_rest(operations: list[Operation], wanted: PodSpec) -> None:
    """Rounds end; what runs is what the manifest says; nothing is left after the pod is removed."""

    async def story(folder: Path) -> None:
        node = ManagedNode(folder)
        for operation in operations:
            await apply(node, operation)
        await converge(node, wanted)

    with tempfile.TemporaryDirectory() as folder:
        run(story(Path(folder)))
