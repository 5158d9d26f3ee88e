"""The interface between the resource manager and the policies that decide about CPUs.

A policy owns a `PolicyState` and is the only one to write in it. It knows no clock, no file and no message: the same
topology, options and calls in the same order give the same decisions. A call either decides or refuses; refused,
nothing in the state has changed. Invariants every policy keeps: no CPU is in two `exclusive` sets, none of these is
reserved, and no pinned container is left without CPUs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Decision, Grant
from interpose.core.policy.request import Key, Request
from interpose.core.policy.state import PolicyState
from interpose.core.topology.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The machine and the CPUs of it that a policy may use."""

    topology: Topology
    available: CpuSet | None = None  # None: all CPUs that are online
    reserved: CpuSet | int | None = None  # these CPUs, or so many thousandths of one; None: not configured


class Policy(Protocol):
    """Decides which CPUs, memory nodes and CPU shares each container gets.

    The resource manager makes one policy per configuration (see `Maker`) and calls it from one thread, never two calls
    at once: `allocate` before the runtime creates a container, and again for each running container after a restart or
    a change of the configuration; `resize` when a caller updates a container, or one was updated outside the relay;
    `release` when a container has ended. `interpose policy simulate` and the tests call it the same way. Every call
    must return at once: a request of the kubelet waits for it.

    Each of the three returns a `Decision`: a grant or a refusal (a release has neither), one sentence that says why,
    and in `changed` the other containers whose assignment is another one now, which `PolicyState.changes` reports. The
    caller updates those; a policy never does. A refusal with `RefusalKind.EXHAUSTED` may succeed later, one with
    `RefusalKind.INVALID` will not; its message goes to the author of the pod. What raises instead is a bug: the
    container then gets `fallback`, and the state must still be as it was before the call.

    An example, a policy with one pool for everybody:

        class OnePoolPolicy:
            name = "one-pool"
            notes = ()

            def __init__(self, setup: Setup, options: None) -> None:
                self.state = PolicyState({"shared": setup.topology.online})
                self.fallback = setup.topology.online

            def allocate(self, request: Request, held: Grant | None = None) -> Decision:
                return self._decide(Action.ALLOCATE, request.key)

            def resize(self, request: Request) -> Decision:
                return self._decide(Action.RESIZE, request.key)

            def release(self, key: Key) -> Decision:
                self.state.drop(key)
                return Decision(action=Action.RELEASE, key=key, reason="nothing to give back")

            def pools(self) -> Mapping[str, CpuSet]:
                return self.state.pools

            def _decide(self, action: Action, key: Key) -> Decision:
                grant = Grant(pools=("shared",))
                self.state.put(key, grant)
                changed = tuple(other for other in self.state.changes() if other != key)
                return Decision(action=action, key=key, grant=grant, reason="shares all CPUs", changed=changed)

    `core.policy.registry` has a row for each policy: add one there, and its names in `core.policy.names`. A policy of
    another package is a class like this one with an entry point, see `core.policy.external`.
    """

    @property
    def name(self) -> str:
        """The name in settings, metrics and the state file; grants that were saved under another name are foreign."""

    @property
    def state(self) -> PolicyState:
        """Pools and grants, to be read only; the policy alone writes in it."""

    @property
    def fallback(self) -> CpuSet:
        """What a container gets if the policy fails about it: CPUs without an exclusive owner; never empty."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the operator about its options on this machine, although it can work with them."""

    def allocate(self, request: Request, held: Grant | None = None) -> Decision:
        """Decide about a container; one that has a grant already is decided again.

        `held`: the container runs already and has this, by an earlier run, other options or another policy (then only
        its `exclusive` CPUs are known). It keeps as many of those CPUs as it may: all of them if they are still right.
        """

    def resize(self, request: Request) -> Decision:
        """Decide about other amounts for a container that has a grant. Refused, it keeps that grant."""

    def release(self, key: Key) -> Decision:
        """Take back the grant of a container that has ended; nothing happens if it has none."""

    def pools(self) -> Mapping[str, CpuSet]:
        """Free and shared CPUs by name, for people: the pools of the state, and those that are only computed."""


@runtime_checkable
class LoadFollower(Policy, Protocol):
    """A policy whose pools follow the load of their CPUs. Most policies do not, and have none of this."""

    def rebalance(self, load: Mapping[int, float]) -> tuple[Key, ...]:
        """Fit pools to the busy part of each CPU, 0 to 1, of the last seconds.

        Called every few seconds between two decisions. It must never take what a container requests. Returns the
        containers whose assignment is another one now, as decisions do.
        """


@runtime_checkable
class MemoryWidener(Policy, Protocol):
    """A policy that knows which memory nodes a container should have next when its own are full.

    Containers of other policies then get all nodes with memory.
    """

    def widen(self, key: Key) -> tuple[Key, ...]:
        """Let a container that has a grant use more memory nodes than now; never less.

        Called between two decisions, and again as long as the nodes are short. Returns the containers whose assignment
        is another one now, as decisions do; none if this one must not have other nodes.
        """


@runtime_checkable
class ColdStarter(Policy, Protocol):
    """A policy under which containers may start with a part of their memory only. Most policies have none of this."""

    def cold_starts(self) -> Mapping[Key, float]:
        """Containers that start so, and for how many seconds they shall have run when that ends."""

    def end_cold_start(self, key: Key) -> tuple[Key, ...]:
        """Give a container all its memory; nothing happens if it has that.

        Called between two decisions. Returns the containers whose assignment is another one now, as decisions do.
        """


class Maker(Protocol):
    """Makes a policy of checked options.

    Raises ConfigError if it cannot work on this machine; each problem names the option and its value.
    """

    def __call__(self, setup: Setup, options: Any) -> Policy: ...
