"""The policy `none`: the relay decides nothing, and containers have what their caller asked for."""

from collections.abc import Mapping
from typing import Final

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Setup
from interpose.core.policy.decision import Action, Decision, Grant
from interpose.core.policy.request import Key, Request
from interpose.core.policy.state import PolicyState

_GRANT: Final = Grant(pinned=False)
_REASON: Final = "policy none: it has what it was created with"


class NonePolicy:
    """Every container gets a grant that says nothing, so that the rest of the relay need not know the difference."""

    name: Final = "none"
    notes: Final[tuple[str, ...]] = ()

    def __init__(self, setup: Setup, options: None = None) -> None:
        self._online = setup.topology.online
        self._state = PolicyState()

    @property
    def state(self) -> PolicyState:
        """Grants that say nothing; there are no pools."""
        return self._state

    @property
    def fallback(self) -> CpuSet:
        """All CPUs that are online."""
        return self._online

    def allocate(self, request: Request, held: Grant | None = None) -> Decision:
        """A grant that says nothing. What another policy granted stays in force until the container is updated."""
        return self._decide(Action.ALLOCATE, request.key)

    def resize(self, request: Request) -> Decision:
        """Other amounts change nothing."""
        return self._decide(Action.RESIZE, request.key)

    def release(self, key: Key) -> Decision:
        self._state.drop(key)
        return Decision(action=Action.RELEASE, key=key, reason="policy none: nothing to give back")

    def pools(self) -> Mapping[str, CpuSet]:
        return self._state.pools

    def _decide(self, action: Action, key: Key) -> Decision:
        if key in self._state.grants:
            action = Action.KEEP
        else:
            self._state.put(key, _GRANT)
            self._state.changes()  # not used; they must not pile up
        return Decision(action=action, key=key, grant=_GRANT, reason=_REASON)
