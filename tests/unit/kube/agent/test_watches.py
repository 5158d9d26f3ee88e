"""Which objects are followed, and what a label of the Node changes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from interpose.kube.agent.config_choice import ChoiceResult, ConfigChoice, ObservedObject
from interpose.kube.agent.config_kinds import ConfigKind
from interpose.kube.agent.config_watches import GROUP_SPACING, WatcherProtocol, call_later
from interpose.kube.agent.watches import NodeWatches
from interpose.kube.client.api import BALLOONS_POLICIES, CONFIG_MAPS, Api, Object, Resource
from interpose.testing.eventually import eventually

LABEL = "example.com/group"


class FakeFollower:
    """Knows what it is told, and notes whether it runs."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.known = False
        self.object: Object | None = None
        self.problem = ""
        self.forbidden = False
        self.current = True
        self.lists = 1
        self.watches = 2
        self.failures = 3
        self.runs = 0
        self._changed = changed

    async def run(self) -> None:
        """Until cancelled."""
        self.runs += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.runs -= 1

    def tell(self, found: Object | None, *, problem: str = "", known: bool = True) -> None:
        """The cluster said something."""
        self.known, self.object, self.problem = known, found, problem
        self._changed()


class Followers(dict[str, FakeFollower]):
    """All that were made, by kind and name."""

    def __call__(
        self, api: Api, resource: Resource, *, name: str, namespace: str = "", changed: Callable[[], None]
    ) -> WatcherProtocol:
        """Make one."""
        made = self[f"{resource.kind} {namespace}/{name}" if namespace else f"{resource.kind} {name}"] = FakeFollower(
            changed
        )
        return made

    def running(self) -> list[str]:
        """The names of ConfigMaps that are followed now."""
        return sorted(name.rpartition("/")[2] for name, one in self.items() if one.runs and "ConfigMap" in name)


class Told:
    """What the others were told."""

    def __init__(self) -> None:
        self.choices: list[ConfigChoice] = []
        self.nodes = 0
        self.slos = 0
        self.configs = 0

    def node(self) -> None:
        """The Node changed."""
        self.nodes += 1

    def slo(self) -> None:
        """The NodeSLO changed."""
        self.slos += 1

    def config(self) -> None:
        """Something is known of the configuration that was not."""
        self.configs += 1


class Bench:
    """Something that follows, with everything around it."""

    def __init__(self, **settings: Any) -> None:
        self.made = Followers()
        self.told = Told()
        self.time = 100.0
        self.calls: list[tuple[float, Callable[[], None]]] = []
        self.before: str | None = None
        maps = ConfigKind(resource=CONFIG_MAPS, group_labels=(LABEL,), base="cfg")
        said: dict[str, Any] = {
            "node": "n1",
            "kinds": (maps,),
            "slo": True,
            "on_choice": self.told.choices.append,
        } | settings
        nobody: Any = None
        self.following = NodeWatches(
            nobody,
            namespace="ns",
            on_config=self.told.config,
            on_node=self.told.node,
            on_slo=self.told.slo,
            went_by=lambda _node: self.before,
            make=self.made,
            now=lambda: self.time,
            after=self._after,
            **said,
        )

    def _after(self, seconds: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        self.calls.append((seconds, callback))
        return asyncio.get_running_loop().call_later(9999, callback)

    def node(self, labels: Mapping[str, str] | None = None) -> None:
        """The Node is as it is."""
        self.made["Node n1"].tell({"metadata": {"name": "n1", "labels": labels, "resourceVersion": "5"}})

    def map(self, name: str, data: Mapping[str, str] | None) -> None:
        """A ConfigMap is there, or is not."""
        found = None if data is None else {"metadata": {"name": name, "resourceVersion": "7"}, "data": data}
        self.made[f"ConfigMap ns/{name}"].tell(found)

    @property
    def last(self) -> ConfigChoice:
        """The choice that was told last."""
        return self.told.choices[-1]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """One that has begun."""
    made = Bench()
    made.following.start()
    yield made
    await made.following.close()


async def test_a_group_that_is_not_known_is_waited_for(bench: Bench) -> None:
    """The default map does not count before it is clear that there is no map of the group; that of the node does."""
    await eventually(lambda: bench.made.running() == ["cfg", "cfg.default", "cfg.node.n1"], "three maps")
    bench.map("cfg.node.n1", None)
    bench.map("cfg.default", {"policy": "x"})
    assert bench.last.verdict is ChoiceResult.WAIT
    assert [one.name for one in bench.following.configs] == ["cfg.node.n1", "cfg.group.?", "cfg.default", "cfg"]
    bench.made["Node n1"].tell(None)
    assert bench.last.verdict is ChoiceResult.WAIT
    assert bench.following.configs[1].problem == "the group is not known: there is no such Node yet"
    bench.made["Node n1"].tell(None, known=False, problem="no route")
    assert bench.following.configs[1].problem == "the group is not known: no route"
    bench.node({LABEL: ""})
    assert bench.following.group == ""
    assert bench.last.chosen is not None
    assert bench.last.chosen.source == "ns/cfg.default"


async def test_the_map_of_the_node_needs_no_group(bench: Bench) -> None:
    """It comes first anyway."""
    bench.map("cfg.node.n1", {"policy": "x"})
    assert bench.last.verdict is ChoiceResult.CHOSEN


async def test_another_label_is_another_map(bench: Bench) -> None:
    """The old one is followed no more; what was counted stays counted."""
    bench.node({LABEL: "gold"})
    await eventually(lambda: "cfg.group.gold" in bench.made.running(), "the map of the group")
    before = bench.following.counts["ConfigMap"]
    bench.node({LABEL: "iron"})
    await eventually(lambda: "cfg.group.gold" not in bench.made.running(), "the old group to be dropped")
    assert bench.made.running() == ["cfg", "cfg.default", "cfg.group.iron", "cfg.node.n1"]
    after = bench.following.counts["ConfigMap"]
    assert (before.lists, after.lists) == (4, 5)
    assert (after.watches, after.failures) == (10, 15)
    bench.node({LABEL: "iron", "other": "label"})
    assert bench.made["ConfigMap ns/cfg.group.iron"].runs == 1
    assert bench.told.nodes == 3


async def test_a_label_that_comes_and_goes_is_followed_with_patience(bench: Bench) -> None:
    """Each change is a list, a watch, and perhaps another configuration. The newest counts when it is time."""
    bench.node({LABEL: "gold"})
    bench.node({LABEL: "iron"})
    for group in ("gold", "iron", "tin", "lead"):
        bench.time += 1.0
        bench.node({LABEL: group})
    assert bench.following.group == "iron"
    [(seconds, callback)] = bench.calls
    assert seconds == GROUP_SPACING - 1.0
    bench.time += seconds
    callback()
    assert bench.following.group == "lead"
    await eventually(lambda: bench.made.running()[2:3] == ["cfg.group.lead"], "the map of the group")
    bench.time += GROUP_SPACING
    bench.node({LABEL: "gold"})
    assert bench.following.group == "gold"


async def test_a_label_that_is_back_when_it_is_time(bench: Bench) -> None:
    """Nothing has changed."""
    for group in ("gold", "iron", "tin", "iron"):
        bench.node({LABEL: group})
    told = len(bench.told.choices)
    [(_, callback)] = bench.calls
    bench.time += GROUP_SPACING
    callback()
    assert len(bench.told.choices) == told


async def test_the_map_that_the_node_went_by_may_be_noted_on_it(bench: Bench) -> None:
    """It is looked at anew when that changes, and only then."""
    bench.node({LABEL: ""})
    for name in ("cfg.node.n1", "cfg.default", "cfg"):
        bench.map(name, None)
    told = len(bench.told.choices)
    bench.node({LABEL: ""})
    assert len(bench.told.choices) == told
    bench.before = "ns/cfg"
    bench.node({LABEL: ""})
    assert bench.last.gone


async def test_a_node_that_is_gone_keeps_its_group(bench: Bench) -> None:
    """It may come back as it was."""
    bench.node({LABEL: "gold"})
    bench.made["Node n1"].tell(None)
    assert bench.following.node == ObservedObject("n1", True, None, kind="Node")
    assert bench.following.group == "gold"


async def test_a_group_without_a_possible_map_is_passed_over(bench: Bench) -> None:
    """Labels may have capitals, names of objects may not."""
    bench.node({LABEL: "Gold_1"})
    assert [one.name for one in bench.following.configs] == ["cfg.node.n1", "cfg.default", "cfg"]


@pytest.mark.parametrize(
    "node", [{}, {"metadata": "x"}, {"metadata": {"labels": [1]}}, {"metadata": {"labels": {LABEL: 1}}}]
)
async def test_a_strange_node_has_no_group(bench: Bench, node: Object) -> None:
    """Whatever an API server sends."""
    bench.made["Node n1"].tell(node)
    assert bench.following.group == ""


async def test_without_a_label_there_are_no_groups() -> None:
    """And nobody waits for the Node."""
    bench = Bench(kinds=(ConfigKind(resource=CONFIG_MAPS, base="cfg"),))
    bench.following.start()
    for name in ("cfg.node.n1", "cfg.default", "cfg"):
        bench.map(name, None)
    assert bench.last.verdict is ChoiceResult.MISSING
    bench.node({LABEL: "gold"})
    assert bench.following.group == ""
    await bench.following.close()


async def test_what_nobody_wants_is_not_followed() -> None:
    """Without maps and NodeSLO only the Node is."""
    bench = Bench(on_choice=None, slo=False)
    bench.following.start()
    bench.node({LABEL: "gold"})
    assert list(bench.made) == ["Node n1"]
    assert bench.following.configs == []
    assert bench.following.slo.known is False
    assert list(bench.following.counts) == ["Node"]
    assert bench.told.choices == []
    assert bench.told.nodes == 1
    await bench.following.close()


async def test_the_nodeslo_is_told_about(bench: Bench) -> None:
    """It is seen as it is."""
    bench.made["NodeSLO n1"].tell({"metadata": {"name": "n1"}})
    assert bench.told.slos == 1
    assert bench.following.slo.object == {"metadata": {"name": "n1"}}
    assert [(kind, name) for kind, name, _ in bench.following.followers][:2] == [("Node", "n1"), ("NodeSLO", "n1")]


async def test_a_name_too_long_for_a_map_of_its_node(caplog: pytest.LogCaptureFixture) -> None:
    """There is no such map, which is said, and the unknown group still has its place."""
    bench = Bench(node="n" * 250)
    assert [one.name for one in bench.following.configs] == ["cfg.group.?", "cfg.default", "cfg"]
    bench.following.start()
    assert "Node has no configuration of its own" in caplog.text
    await bench.following.close()


async def test_later() -> None:
    """In the loop that runs."""
    called = asyncio.Event()
    call_later(0.001, called.set)
    await called.wait()


async def test_a_change_of_the_group_that_is_still_to_come_is_forgotten_at_the_end() -> None:
    """Nobody looks any more."""
    bench = Bench()
    bench.following.start()
    for group in ("gold", "iron", "tin"):
        bench.node({LABEL: group})
    await bench.following.close()
    [kind] = bench.following._configs
    assert kind._regrouping is not None
    assert kind._regrouping.cancelled()


# -- objects of policies


OBJECTS = ConfigKind(resource=BALLOONS_POLICIES, group_labels=("new/group", "old.group"))


@pytest.fixture
async def both() -> AsyncIterator[Bench]:
    """Objects of a policy before ConfigMaps."""
    maps = ConfigKind(resource=CONFIG_MAPS, group_labels=(LABEL,), base="cfg")
    made = Bench(kinds=(OBJECTS, maps))
    made.following.start()
    yield made
    await made.following.close()


def tell_object(bench: Bench, name: str, spec: Object | None) -> None:
    """An object is there, or is not."""
    found = None if spec is None else {"metadata": {"name": name, "generation": 3}, "spec": spec}
    bench.made[f"BalloonsPolicy ns/{name}"].tell(found)


async def test_kinds_count_in_their_order(both: Bench) -> None:
    """The default object of the first kind beats the ConfigMap of the node; without any object the map counts."""
    both.node({})
    both.map("cfg.node.n1", {"policy": "x"})
    assert both.last.verdict is ChoiceResult.WAIT
    tell_object(both, "node.n1", None)
    tell_object(both, "default", {"pinCPU": True})
    assert both.last.chosen is not None
    assert (both.last.chosen.source, both.last.chosen.generation) == ("BalloonsPolicy ns/default", 3)
    tell_object(both, "default", None)
    assert both.last.chosen is not None
    assert both.last.chosen.source == "ns/cfg.node.n1"
    assert [(one.kind, one.name) for one in both.following.configs] == [
        ("BalloonsPolicy", "node.n1"),
        ("BalloonsPolicy", "default"),
        ("ConfigMap", "cfg.node.n1"),
        ("ConfigMap", "cfg.default"),
        ("ConfigMap", "cfg"),
    ]


async def test_each_kind_has_its_own_group(both: Bench) -> None:
    """By its own labels, of which the first that the Node has counts; the group that is shown is of the first kind."""
    both.node({LABEL: "maps", "old.group": "past"})
    names = [one.name for one in both.following.configs]
    assert [name for name in names if "group" in name] == ["group.past", "cfg.group.maps"]
    assert both.following.group == "past"
    both.node({LABEL: "maps", "old.group": "past", "new/group": "present"})
    assert both.following.group == "present"
    counts = both.following.counts
    assert counts["BalloonsPolicy"].lists == 4  # that of the group before is not forgotten
    assert counts["ConfigMap"].lists == 4


async def test_what_is_seen_is_told_though_the_choice_is_the_same(both: Bench) -> None:
    """The status of an object may be another one."""
    both.node({})
    tell_object(both, "node.n1", {})
    told = both.told.configs
    tell_object(both, "node.n1", {})
    assert both.told.configs == told + 1
