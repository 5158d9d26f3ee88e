"""One owner of each value on a node: what a policy of the relay decides is neither written nor restored by us.

The relay is asked which values that are; that there is none, or none with a policy, is normal. What it said last counts
while it is away for a moment: a relay that is being replaced takes back nothing. One that stays away owns nothing.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from interpose.core.model.cgroup import CRI_FIELDS, Level, Parameter
from interpose.hooks.server.pods.kubelet_client import Poller
from interpose.hooks.server.targets import ActuatorTarget
from interpose.log import RateLimited

_log = logging.getLogger(__name__)

VERSION: Final = 1
PATH: Final = "/v1/policy/owned"
AWAY_SECONDS: Final = 60.0  # a relay that does not answer for longer owns nothing; a restart takes one or two

_PARAMETERS: Final = {field: parameter for parameter, field in CRI_FIELDS.items()}

# The answer as JSON has it; None if the relay knows no policy. OSError if it cannot be asked, ValueError if it is none.
Fetch = Callable[[], Awaitable[object]]


class Ownership(NamedTuple):
    """A policy, and the values that it decides about. Without a policy there are none."""

    policy: str = ""
    parameters: frozenset[Parameter] = frozenset()  # of all containers
    values: frozenset[tuple[Level, str, Parameter]] = frozenset()  # of single containers by id, of pods by cgroup

    def has(self, target: ActuatorTarget, parameter: Parameter) -> bool:
        """Whether a value is the policy's."""
        everywhere = target.level is Level.CONTAINER and parameter in self.parameters
        return everywhere or (target.level, target.key, parameter) in self.values

    def of_container(self, container_id: str) -> frozenset[Parameter]:
        """The values of a container that are the policy's."""
        own = {name for level, key, name in self.values if level is Level.CONTAINER and key == container_id}
        return self.parameters | own

    @property
    def owner(self) -> str:
        """In words; any other process where no policy is known."""
        return f"policy {self.policy} of the relay" if self.policy else "another process"


def read_ownership(document: object) -> Ownership:
    """The answer of a relay; ValueError says what is wrong with it. Values that we do not know do not concern us."""
    if not isinstance(document, dict):
        raise ValueError("is not an object")
    if document.get("version") != VERSION:
        raise ValueError(f"has version {document.get('version')!r:.20}, this program reads version {VERSION}")
    policy, owns = document.get("policy"), document.get("owns")
    if not isinstance(policy, str) or not isinstance(owns, list) or not all(isinstance(name, str) for name in owns):
        raise ValueError("has no policy, or no list of what it owns")
    parameters = frozenset(_PARAMETERS[name] for name in owns if name in _PARAMETERS)
    values = frozenset(
        (level, key, _PARAMETERS[name])
        for level, group in ((Level.CONTAINER, "containers"), (Level.POD, "pods"))
        for key, names in _names_by_id(document.get(group, {}), group).items()
        for name in names
        if name in _PARAMETERS
    )
    return Ownership(policy if owns or values else "", parameters, values)


def _names_by_id(group: object, name: str) -> dict[str, list[str]]:
    """Names of values by the id of what they are of; an older relay has none."""
    if not isinstance(group, dict) or not all(
        isinstance(names, list) and all(isinstance(text, str) for text in names) for names in group.values()
    ):
        raise ValueError(f"has no lists of what it owns of {name}")
    return group


class RelayPolicy:
    """What a relay said last. Without `fetch` there is none to ask."""

    def __init__(self, fetch: Fetch | None, *, now: Callable[[], float], on_change: Callable[[], None]) -> None:
        self.owned = Ownership()
        self.problem = ""  # why it could not be asked; empty also if nobody is there
        self.reachable = False
        self._fetch = fetch
        self._now = now
        self._answered_at: float | None = None  # when it answered last
        self._limited = RateLimited(_log)
        self._poller = Poller(self._refresh, lambda: self.owned, on_change, name="ask the relay for its policy")

    async def poll(self) -> Ownership:
        """What the policy owns, after a short wait for the latest."""
        if self._fetch is not None:
            await self._poller.poll()
        return self.owned

    async def close(self) -> None:
        """Cancel a request that is under way."""
        await self._poller.close()

    async def _refresh(self) -> None:
        if self._fetch is None:
            return
        try:
            answer = await self._fetch()
            owned = Ownership() if answer is None else read_ownership(answer)
        except (OSError, ValueError) as error:
            self._on_failure(error)
            return
        self.reachable, self.problem, self._answered_at = True, "", self._now()
        self._set_owned(owned)

    def _on_failure(self, error: OSError | ValueError) -> None:
        absent = isinstance(error, FileNotFoundError | ConnectionRefusedError)
        self.reachable, self.problem = False, "" if absent else str(error)
        if self.problem:
            self._limited.log(
                logging.WARNING, "Relay cannot be asked for its policy", key=self.problem, err=self.problem
            )
        if self._answered_at is not None and self._now() - self._answered_at > AWAY_SECONDS:
            self._set_owned(Ownership())

    def _set_owned(self, owned: Ownership) -> None:
        if (owned.policy, owned.parameters) != (self.owned.policy, self.owned.parameters):
            values = ", ".join(sorted(owned.parameters)) or "none"
            kv = {"policy": owned.policy or "none", "values": values}
            _log.info("Values of containers that a policy of the relay decides", extra={"kv": kv})
        self.owned = owned
