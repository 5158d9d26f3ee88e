"""The policy of another package: what must be right about it, and what a wrong decision costs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.api import Policy, Setup
from interpose.core.policy.decision import Decision, Grant, Refusal, RefusalKind
from interpose.core.policy.external import ExternalOptions, ExternalPolicy
from interpose.core.policy.request import Key, Request
from interpose.errors import ConfigError
from tests.support.policy.machines import machine
from tests.support.policy.one_pool import OnePoolPolicy

SETUP = Setup(topology=machine("laptop"))
ALL = SETUP.topology.online


def made(maker: Any, options: Mapping[str, Any] | None = None) -> ExternalPolicy:
    """The policy `one-pool` of a package."""
    return ExternalPolicy(SETUP, ExternalOptions(entry_point="one-pool", options=options or {}, maker=maker))


def request(name: str = "main") -> Request:
    """A container that asks for nothing."""
    return Request(key=Key("pod", name))


class Recorder(OnePoolPolicy):
    """Remembers itself."""

    last: "Recorder"

    def __init__(self, setup: Setup, options: Mapping[str, Any]) -> None:
        super().__init__(setup, options)
        Recorder.last = self


def test_it_decides() -> None:
    """Under its own name, with its own state, and with the options of the document."""
    policy: Policy = made(Recorder, {"exclusive": {"db": "1"}})
    assert (policy.name, policy.notes, policy.fallback, policy.pools()) == (
        "one-pool",
        (),
        ALL,
        {"shared": ALL, "empty": EMPTY},
    )
    assert policy.allocate(request("db")).grant == Grant(exclusive=CpuSet.of([1]))
    assert policy.allocate(request()).grant == policy.resize(request()).grant == Grant(pools=("shared",))
    assert list(policy.state.grants) == [Key("pod", "db"), Key("pod", "main")]
    policy.release(Key("pod", "db"))
    assert list(policy.state.grants) == [Key("pod", "main")]


def test_a_grant_of_another_package_is_its_cpus_only() -> None:
    """One of its own comes back as it was."""
    policy = made(Recorder)
    policy.allocate(request(), Grant(pools=("shared",), milli=5))
    assert Recorder.last.held == Grant(pools=("shared",), milli=5)
    policy.allocate(request(), Grant(pools=("theirs",), exclusive=CpuSet.of([0]), milli=5))
    assert Recorder.last.held == Grant(exclusive=CpuSet.of([0]))


class Refuses(OnePoolPolicy):
    """Takes nobody."""

    def allocate(self, request: Request, held: Grant | None = None) -> Decision:
        """A refusal."""
        refusal = Refusal(kind=RefusalKind.INVALID, message="no")
        return replace(super().allocate(request), grant=None, refusal=refusal)


def test_a_refusal_is_passed_on() -> None:
    """It has no grant to check."""
    assert made(Refuses).allocate(request()).refusal == Refusal(kind=RefusalKind.INVALID, message="no")


class GivesWithoutState(OnePoolPolicy):
    """Forgets to write down what it gives."""

    def _grant(self, action: Any, key: Key, grant: Grant) -> Decision:
        return Decision(action=action, key=key, grant=grant)


class GivesNothing(OnePoolPolicy):
    """Gives a share of no CPUs."""

    def _grant(self, action: Any, key: Key, grant: Grant) -> Decision:
        return super()._grant(action, key, Grant(pools=("empty",)))


@pytest.mark.parametrize(
    ("maker", "options", "problem"),
    [
        (GivesWithoutState, {}, "granted something else than what its state has"),
        (GivesNothing, {}, "left a container without CPUs"),
        (OnePoolPolicy, {"exclusive": {"main": "1"}}, "gave CPUs 1 to two containers as their own"),
        (OnePoolPolicy, {"exclusive": {"main": "900"}}, "gave CPUs 900, which are not online"),
    ],
)
def test_a_wrong_decision_is_taken_back(maker: Any, options: dict[str, Any], problem: str) -> None:
    """It is as if the container had not been asked about."""
    policy = made(maker, options)
    other = Key("other", "main")
    policy.state.put(other, Grant(exclusive=CpuSet.of([1])))
    with pytest.raises(RuntimeError, match=f"^policy one-pool: {problem}$"):
        policy.allocate(request())
    assert list(policy.state.grants) == [other]


def test_a_container_that_is_not_pinned_has_no_cpus_to_check() -> None:
    """It runs wherever it was created."""

    class LeavesAlone(OnePoolPolicy):
        def _grant(self, action: Any, key: Key, grant: Grant) -> Decision:
            return super()._grant(action, key, Grant(pinned=False))

    assert made(LeavesAlone).allocate(request()).grant == Grant(pinned=False)


def test_a_fallback_is_never_empty() -> None:
    """A container without a place needs some CPU."""
    policy = made(Recorder)
    Recorder.last.fallback = EMPTY
    assert policy.fallback == ALL


def refuses_options(setup: Setup, options: Mapping[str, Any]) -> Policy:
    """A maker with demands."""
    raise ConfigError(["size: is missing", "color: is missing"])


@pytest.mark.parametrize(
    ("maker", "problem"),
    [
        (refuses_options, "size: is missing"),
        (lambda *_: 1 // 0, "ZeroDivisionError: integer division or modulo by zero"),
        (lambda *_: {}, "made a dict, which has no allocate, resize, release, pools"),
        (type("Named", (OnePoolPolicy,), {"name": "two-pools"}), "its policy calls itself 'two-pools'"),
        (type("Bare", (OnePoolPolicy,), {"state": property(lambda _: {}, lambda *_: None)}), "its state is not a "),
        (
            type("Far", (OnePoolPolicy,), {"fallback": property(lambda _: CpuSet.of([900]), lambda *_: None)}),
            "its fallback has CPUs 900, which are not online",
        ),
    ],
)
def test_what_cannot_be_a_policy_is_a_problem_of_the_configuration(maker: Any, problem: str) -> None:
    """With the entry point in front; nothing of it is in force."""
    with pytest.raises(ConfigError) as caught:
        made(maker)
    assert caught.value.problems[0].startswith(f"policy external: entry point one-pool: {problem}")


def test_a_name_of_our_own_policies_is_not_another_package() -> None:
    """The state file would mix them up."""
    named: Any = type("Static", (OnePoolPolicy,), {"name": "static"})
    with pytest.raises(ConfigError, match="calls itself 'static'"):
        ExternalPolicy(SETUP, ExternalOptions(entry_point="static", maker=named))


def test_no_entry_point() -> None:
    """The name of a policy alone is not enough."""
    with pytest.raises(ConfigError, match="policy external: EntryPoint: names no policy"):
        ExternalPolicy(SETUP, ExternalOptions())
