"""A policy as another package may have it: one pool for everybody, or whatever a test makes of it."""

from collections.abc import Mapping
from typing import Any

from interpose.policyplugin import Action, CpuSet, Decision, Grant, Key, PolicyState, Request, Setup


class OnePoolPolicy:
    """Containers share all CPUs. `options`: `exclusive` has CPUs by container that it gets as its own."""

    name = "one-pool"
    notes: tuple[str, ...] = ()

    def __init__(self, setup: Setup, options: Mapping[str, Any]) -> None:
        self.options = options
        self.state = PolicyState({"shared": setup.topology.online, "empty": CpuSet.of([])})
        self.fallback = setup.topology.online
        self.held: Grant | None = None

    def allocate(self, request: Request, held: Grant | None = None) -> Decision:
        """A share, or what the options say."""
        self.held = held
        own = CpuSet.parse(self.options.get("exclusive", {}).get(request.key.name, ""))
        return self._grant(Action.ALLOCATE, request.key, Grant(exclusive=own) if own else Grant(pools=("shared",)))

    def resize(self, request: Request) -> Decision:
        """Nothing changes."""
        return self._grant(Action.RESIZE, request.key, self.state.grants[request.key])

    def release(self, key: Key) -> Decision:
        """Nothing to give back."""
        self.state.drop(key)
        return Decision(action=Action.RELEASE, key=key, reason="nothing to give back")

    def pools(self) -> Mapping[str, CpuSet]:
        """The one, and one that is always empty."""
        return self.state.pools

    def _grant(self, action: Action, key: Key, grant: Grant) -> Decision:
        self.state.put(key, grant)
        changed = tuple(other for other in self.state.changes() if other != key)
        return Decision(action=action, key=key, grant=grant, reason="shares all CPUs", changed=changed)
