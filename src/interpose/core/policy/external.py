"""The policy `external`: one of an installed package, whose decisions are checked before they count."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from interpose.core.model.cpuset import CpuSet
from interpose.core.model.resources import empty_map
from interpose.core.policy.api import Maker, Policy, Setup
from interpose.core.policy.decision import Decision, Grant
from interpose.core.policy.names import NAMES
from interpose.core.policy.request import Key, Request
from interpose.core.policy.state import PolicyState
from interpose.errors import ConfigError

_WHERE: Final = "policy external"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalOptions:
    """Which policy, and what its author lets one say to it."""

    entry_point: str = ""
    options: Mapping[str, Any] = field(default_factory=empty_map)  # plain values, as in the document
    maker: Maker | None = None  # what the entry point refers to, once it is loaded


class ExternalPolicy:
    """A policy of others as the relay sees it: its own name, its own state, and no decision that breaks the contract.

    A decision that does is a bug of the package: the grant is taken back, and RuntimeError says what is wrong with it.
    """

    def __init__(self, setup: Setup, options: ExternalOptions) -> None:
        if options.maker is None:
            raise ConfigError(f"{_WHERE}: EntryPoint: names no policy of an installed package")
        where = f"{_WHERE}: entry point {options.entry_point}"
        try:
            policy: Policy = options.maker(setup, options.options)
            problem = _problem(policy, options.entry_point, setup.topology.online)
        except ConfigError as error:
            raise ConfigError([f"{where}: {text}" for text in error.problems]) from None
        except Exception as error:
            raise ConfigError(f"{where}: {type(error).__name__}: {error}") from error
        if problem:
            raise ConfigError(f"{where}: {problem}")
        self._policy = policy
        self._online = setup.topology.online

    @property
    def name(self) -> str:
        """The name that the package gave it."""
        return self._policy.name

    @property
    def state(self) -> PolicyState:
        """Pools and grants of the package."""
        return self._policy.state

    @property
    def fallback(self) -> CpuSet:
        """What the package says, or all CPUs if it forgets that this must not be empty."""
        return self._policy.fallback or self._online

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks of the package about its options."""
        return self._policy.notes

    def allocate(self, request: Request, held: Grant | None = None) -> Decision:
        """What the package decides. Of a grant of another package it is told the CPUs only: pools of that name are
        not its own."""
        if held is not None and not self.state.pools.keys() >= set(held.pools):
            held = Grant(exclusive=held.exclusive)
        return self._checked(self._policy.allocate(request, held))

    def resize(self, request: Request) -> Decision:
        return self._checked(self._policy.resize(request))

    def release(self, key: Key) -> Decision:
        return self._policy.release(key)

    def pools(self) -> Mapping[str, CpuSet]:
        return self._policy.pools()

    def _checked(self, decision: Decision) -> Decision:
        if decision.refusal is not None:
            return decision
        problem = self._mistake(decision)
        if problem:
            self._policy.release(decision.key)
            raise RuntimeError(f"policy {self.name}: {problem}")
        return decision

    def _mistake(self, decision: Decision) -> str:
        grants = self.state.grants
        grant = grants.get(decision.key)
        if grant is None or grant != decision.grant:
            return "granted something else than what its state has"
        own = grant.exclusive
        for key, other in grants.items():
            if key != decision.key and other.exclusive & own:
                return f"gave CPUs {other.exclusive & own} to two containers as their own"
        cpus = self.state.assignment(decision.key).cpus
        if cpus is not None and not cpus:
            return "left a container without CPUs"
        if cpus is not None and not cpus <= self._online:
            return f"gave CPUs {cpus - self._online}, which are not online"
        return ""


def _problem(policy: Any, entry_point: str, online: CpuSet) -> str:
    """Why what a package made cannot be a policy; empty if it can."""
    if missing := [name for name in ("allocate", "resize", "release", "pools") if not hasattr(policy, name)]:
        return f"made a {type(policy).__name__}, which has no {', '.join(missing)}"
    if policy.name != entry_point or policy.name in NAMES:
        return f"its policy calls itself {policy.name!r}"
    if not isinstance(policy.state, PolicyState):
        return "its state is not a PolicyState"
    return (
        "" if policy.fallback <= online else f"its fallback has CPUs {policy.fallback - online}, which are not online"
    )
