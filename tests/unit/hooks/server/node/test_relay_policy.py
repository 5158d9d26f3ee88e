"""What a policy of the relay decides, as the relay tells it."""

import asyncio
import logging
from typing import Any

import pytest

from interpose.core.model.cgroup import Level, Parameter
from interpose.hooks.server.node.relay_policy import AWAY_SECONDS, Ownership, RelayPolicy, read_ownership
from interpose.hooks.server.pods import kubelet_client
from interpose.hooks.server.targets import ActuatorTarget
from interpose.testing.eventually import eventually

CPUS, SHARES = Parameter.CPUSET_CPUS, Parameter.CPU_SHARES
STATIC = {"version": 1, "policy": "static", "owns": ["cpuset_cpus"]}
QUOTA = Parameter.CPU_QUOTA
QUOTAS = frozenset({(Level.CONTAINER, "c", QUOTA), (Level.POD, "d/p", QUOTA)})
OWNED = Ownership("static", frozenset({CPUS}))


@pytest.mark.parametrize(
    ("document", "owned"),
    [
        (STATIC, OWNED),
        ({**STATIC, "owns": ["cpuset_cpus", "cpu_shares"], "more": 1}, Ownership("static", frozenset({CPUS, SHARES}))),
        ({**STATIC, "owns": ["something_new", "cpuset_cpus"]}, OWNED),
        ({"version": 1, "policy": "none", "owns": []}, Ownership()),
        (
            {**STATIC, "owns": [], "containers": {"c": ["cpu_quota", "new"]}, "pods": {"d/p": ["cpu_quota"]}},
            Ownership("static", frozenset(), QUOTAS),
        ),
    ],
)
def test_an_answer_is_read(document: object, owned: Ownership) -> None:
    """What this program does not know of is passed over."""
    assert read_ownership(document) == owned


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "not an object"),
        ({**STATIC, "version": 2}, "version 2, this program reads version 1"),
        ({"policy": "static", "owns": []}, "version None"),
        ({**STATIC, "policy": 1}, "no policy"),
        ({**STATIC, "owns": "cpuset_cpus"}, "no list"),
        ({**STATIC, "owns": [1]}, "no list"),
        ({**STATIC, "containers": ["c"]}, "no lists of what it owns of containers"),
        ({**STATIC, "pods": {"p": "cpu_quota"}}, "no lists of what it owns of pods"),
        ({**STATIC, "pods": {"p": [1]}}, "no lists of what it owns of pods"),
    ],
)
def test_something_else_is_no_answer(document: object, words: str) -> None:
    """It says why."""
    with pytest.raises(ValueError, match=words):
        read_ownership(document)


def test_only_values_of_containers_are_a_policys() -> None:
    """Those of pods and classes are not, but for those that are named."""
    assert OWNED.has(ActuatorTarget(level=Level.CONTAINER, key="c"), CPUS)
    assert not OWNED.has(ActuatorTarget(level=Level.CONTAINER, key="c"), SHARES)
    assert not OWNED.has(ActuatorTarget(level=Level.POD, key="p"), CPUS)
    single = Ownership("static", frozenset({CPUS}), QUOTAS)
    assert single.has(ActuatorTarget(level=Level.POD, key="d/p"), QUOTA)
    assert not single.has(ActuatorTarget(level=Level.POD, key="d/q"), QUOTA)
    assert not single.has(ActuatorTarget(level=Level.CONTAINER, key="d"), QUOTA)
    assert single.of_container("c") == {CPUS, QUOTA}
    assert single.of_container("d") == {CPUS}
    assert (OWNED.owner, Ownership().owner) == ("policy static of the relay", "another process")


class Relay:
    """Answers, or not. `let` holds the answer back."""

    def __init__(self) -> None:
        self.answer: Any = STATIC
        self.asked = 0
        self.now = 0.0
        self.news = 0
        self.let = asyncio.Event()
        self.let.set()
        self.policy = RelayPolicy(self._fetch, now=lambda: self.now, on_change=self._changed)

    async def _fetch(self) -> object:
        self.asked += 1
        await self.let.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def _changed(self) -> None:
        self.news += 1


async def test_without_a_relay_nothing_is_owned() -> None:
    """Somebody who has none says so, and nobody is asked."""
    policy = RelayPolicy(None, now=lambda: 0.0, on_change=lambda: None)
    assert await policy.poll() == Ownership()
    await policy._refresh()
    assert not policy.reachable
    await policy.close()


async def test_it_is_asked_each_time(caplog: pytest.LogCaptureFixture) -> None:
    """A policy comes and goes; each change is told."""
    relay = Relay()
    with caplog.at_level(logging.INFO, "interpose"):
        assert await relay.policy.poll() == OWNED
        assert await relay.policy.poll() == OWNED
        relay.answer = None
        assert await relay.policy.poll() == Ownership()
    assert (relay.asked, relay.policy.reachable, relay.news) == (3, True, 0)
    assert [one.kv for one in caplog.records] == [  # type: ignore[attr-defined]
        {"policy": "static", "values": "cpuset.cpus"},
        {"policy": "none", "values": "none"},
    ]


@pytest.mark.parametrize("error", [FileNotFoundError(2, "x"), ConnectionRefusedError(1, "x"), ValueError("odd")])
async def test_what_it_said_last_counts_while_it_is_away(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """For a while: a relay that is replaced takes back nothing, one that is gone for good does."""
    relay = Relay()
    await relay.policy.poll()
    relay.answer, relay.now = error, AWAY_SECONDS
    assert await relay.policy.poll() == OWNED
    absent = isinstance(error, OSError)
    assert (relay.policy.reachable, relay.policy.problem) == (False, "" if absent else "odd")
    assert ("cannot be asked" in caplog.text) is not absent
    relay.now = AWAY_SECONDS + 1
    assert await relay.policy.poll() == Ownership()


async def test_a_relay_that_was_never_there_is_no_problem() -> None:
    """Most nodes have none with a policy."""
    relay = Relay()
    relay.answer = FileNotFoundError(2, "no such file")
    assert await relay.policy.poll() == Ownership()
    assert relay.policy.problem == ""


async def test_a_round_does_not_wait_for_a_relay_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes by the last answer, and late news leads to another round."""
    monkeypatch.setattr(kubelet_client, "_POLL_WAIT", 0.0)
    relay = Relay()
    relay.let.clear()
    for _ in range(3):
        assert await relay.policy.poll() == Ownership()
    assert relay.asked == 1
    relay.let.set()
    await eventually(lambda: relay.news == 1, "the news")
    assert relay.policy.owned == OWNED
    relay.let.clear()
    await relay.policy.poll()
    await relay.policy.close()
    assert relay.news == 1
