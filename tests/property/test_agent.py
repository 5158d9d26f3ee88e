"""What always holds for the agent: which keys it leaves out, and how it pushes."""

from collections.abc import Mapping
from typing import Final

from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from interpose.config.documents.policy import PolicyDocument, read_config_map
from interpose.errors import ConfigError
from interpose.kube.agent.config_choice import ChoiceResult, ConfigChoice, ObservedObject, SelectedConfig, choose
from interpose.kube.agent.push_state import Push, PushPhase, PushPlan

# -- which keys

NODE: Final = "w1.example"
_MODULES = st.sampled_from(["policy", "Policy", "logger", "x"])
_POLICIES = st.sampled_from(["static", "STATIC", "stp", "static-pools", "none", "balloons", "statik", "Active", ""])
_WHOSE = st.sampled_from(
    ["", NODE, "w1", "w2.example", "RelaxedIsolation", "relaxedisolation.example", "pools", "pools.x", "Pools", "x_Y"]
)
_KEYS = st.builds(lambda *parts: ".".join(part for part in parts if part is not None), _MODULES, _POLICIES, _WHOSE)
_TEXTS = st.sampled_from(["", "Active: static", "RelaxedIsolation: true", "static", "{", "nonsense: 1"])


def outcome(data: Mapping[str, str]) -> PolicyDocument | list[str]:
    """What the relay makes of it."""
    try:
        return read_config_map(data, NODE)
    except ConfigError as error:
        return error.problems


@given(st.dictionaries(_KEYS, _TEXTS, max_size=6))
@example({"policy.static.relaxedisolation.example": ""})
def test_relay_does_not_miss_what_is_left_out(data: dict[str, str]) -> None:
    """It says the same, warnings and problems included, with the keys of other nodes and without them."""
    choice = choose([ObservedObject("a", True, {"data": data})], node=NODE, namespace="ns")
    assert choice.chosen is not None
    assert outcome(choice.chosen.data) == outcome(data)


# What can be known of a map: exists, does not, did not a while ago, was never seen, may not be seen.
_KNOWN: st.SearchStrategy[tuple[bool, dict[str, object] | None, bool, bool]] = st.sampled_from(
    [
        (True, {"data": {}}, False, True),
        (True, None, False, True),
        (True, None, False, False),
        (False, None, False, False),
        (False, None, True, False),
    ]
)


@given(st.lists(_KNOWN, max_size=4), st.sampled_from([None, "", "ns/0", "ns/1", "ns/2", "ns/3", "ns/other"]))
def test_choice_of_a_map(known: list[tuple[bool, dict[str, object] | None, bool, bool]], before: str | None) -> None:
    """A map counts only if all before it are absent or passed over, and what a node has is never taken for missing."""
    seen = [ObservedObject(str(at), one[0], one[1], "", one[2], one[3]) for at, one in enumerate(known)]
    choice = choose(seen, node=NODE, namespace="ns", before=before)
    before_it = seen
    if choice.chosen is not None:
        before_it = seen[: int(choice.chosen.source.removeprefix("ns/"))]
        assert seen[len(before_it)].object is not None
    if choice.verdict in (ChoiceResult.CHOSEN, ChoiceResult.MISSING, ChoiceResult.UNSEEN):
        assert all(one.object is None and (one.known or one.forbidden) for one in before_it)
        # The one that the node went by is never only out of sight.
        assert not any(f"ns/{one.name}" == before and not one.known for one in before_it)
        assert choice.sure is all(one.current or not one.known for one in before_it)
        assert choice.gone is any(f"ns/{one.name}" == before for one in before_it)
    if choice.verdict is ChoiceResult.MISSING:
        assert all(one.known for one in seen) or choice.gone or before == ""
    if seen and all(one.known and one.object is None for one in seen):
        assert choice.verdict is ChoiceResult.MISSING


# -- pushing

INTERVAL: Final = 2.0
GRACE: Final = 30.0
REJECTED: Final = "bad"
_FATES = st.sampled_from(["answered", "lost before", "lost after"])


class Pushing(RuleBasedStateMachine):
    """A plan, and a relay that comes and goes, forgets, says no, and loses calls before or after it acted on them."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.session: int | None = None
        self.sessions = 0
        self.holds: dict[str, str] | None = None  # what the relay has
        self.wanted: dict[str, str] | None = None
        self.missing_since: float | None = None
        self.flying: Push | None = None
        self.begun: list[float] = []
        self.confirmed: tuple[Mapping[str, str], int | None] | None = None  # by which relay
        self.good: Mapping[str, str] | None = None  # what was accepted last, and by which relay
        self.given: int | None = None
        self.chance = 0.0
        self.plan = PushPlan(interval=INTERVAL, grace=GRACE, withdraw=True, chance=lambda: self.chance)

    @initialize(chance=st.sampled_from([0.0, 0.5, 0.99]))
    def start(self, chance: float) -> None:
        """The relay is there. Pauses are longer or shorter."""
        self.chance = chance
        self.come(forgets=False)

    # -- the cluster

    @rule(text=st.sampled_from(["one", "two", REJECTED]), version=st.sampled_from("12"))
    def want(self, text: str, version: str) -> None:
        """It says what is wanted."""
        chosen = SelectedConfig(source="ns/a", version=version, data={"policy": text})
        self.plan.consider(ConfigChoice(verdict=ChoiceResult.CHOSEN, chosen=chosen), self.now)
        self.wanted, self.missing_since = dict(chosen.data), None

    @rule()
    def miss(self) -> None:
        """There is nothing."""
        self.plan.consider(ConfigChoice(verdict=ChoiceResult.MISSING), self.now)
        if self.missing_since is None:
            self.missing_since = self.now

    @rule()
    def lose_sight(self) -> None:
        """It is not known."""
        self.plan.consider(ConfigChoice(verdict=ChoiceResult.WAIT), self.now)
        self.missing_since = None

    # -- the relay

    @rule(forgets=st.booleans())
    def come(self, forgets: bool) -> None:
        """It is there, perhaps another one."""
        self.sessions += 1
        self.session = self.sessions
        if forgets:
            self.holds = None
        self.plan.connection(self.session, "", self.now)

    @rule()
    def go(self) -> None:
        """It is away."""
        self.session = None
        self.plan.connection(None, "gone", self.now)

    @precondition(lambda self: self.flying is not None)
    @rule(fate=_FATES, seconds=st.sampled_from([0.0, 1.0, 15.0]))
    def land(self, fate: str, seconds: float) -> None:
        """The call in flight ends."""
        push, self.flying = self.flying, None
        assert push is not None
        self.now += seconds
        refused = push.data.get("policy") == REJECTED
        if fate != "lost before" and push.session == self.session and not refused:
            self.holds = dict(push.data)
        if fate != "answered" or push.session != self.session:
            self.plan.failed("lost", self.now)
        elif refused:
            self.plan.rejected(("no",), self.now)
        else:
            self.plan.accepted()
            self.confirmed = (push.data, push.session) if not push.again else None
            self.good, self.given = push.data, push.session

    # -- time

    @rule(seconds=st.sampled_from([0.0, 0.5, 3.0, 40.0]), fate=st.none() | _FATES)
    def step(self, seconds: float, fate: str | None) -> None:
        """A push begins if one is due, and perhaps ends at once."""
        self.now += seconds
        if self.missing_since is not None and self.now >= self.missing_since + GRACE:
            self.wanted = {}
        push = self.plan.begin(self.now)
        if push is None:
            return
        assert self.flying is None
        assert push.session == self.session
        if push.again:  # given back to one who may have forgotten it
            assert push.data == self.good
            assert push.data != self.wanted
            assert self.given != self.session
        else:
            assert push.data == self.wanted
        assert not self.begun or self.now >= self.begun[-1] + INTERVAL
        # What the relay that is there now has confirmed is not sent again.
        assert self.confirmed != (push.data, self.session)
        self.begun.append(self.now)
        self.flying, self.confirmed = push, None
        if fate is not None:
            self.land(fate, 0.0)

    @invariant()
    def one_at_a_time(self) -> None:
        """Whatever happens while a call is in flight."""
        if self.flying is not None:
            assert self.plan.begin(self.now) is None

    def teardown(self) -> None:
        """When all goes well from here on, the relay soon has what is wanted, and then nothing is done any more."""
        if self.flying is not None:
            self.land("answered", 0.0)
        if self.session is None:
            self.come(forgets=True)
        for _ in range(50):
            due = self.plan.due(self.now)
            if due is None or (self.wanted or {}).get("policy") == REJECTED:
                break
            self.step(max(due - self.now, 0.0), "answered")
        if self.wanted is not None and self.wanted.get("policy") != REJECTED:
            assert self.holds == self.wanted
            assert self.plan.due(self.now) is None
            assert self.plan.state(self.now, 0.0).phase in (PushPhase.APPLIED, PushPhase.WITHDRAWN)


TestPushing = Pushing.TestCase
# Most examples are short, and it takes some steps until a push can go wrong.
TestPushing.settings = settings(max_examples=6 * settings().max_examples)
