"""Plugins of installed packages: which are found, and what is said of those that cannot be used."""

import sys
import threading
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import pytest

from interpose.core.model.cgroup import Level, Parameter
from interpose.core.model.pod import Container, Pod
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.context import ContainerContext
from interpose.hooks.server.entry_points import GROUP, UnusablePlugin, load_plugins
from interpose.hooks.server.evaluate import PluginChain
from interpose.hooks.server.node.rules import PluginRules, make_rules
from interpose.hooks.server.plugin import NodeInputs, Plugin
from interpose.host.entry_points import InstalledEntryPoint, find_entry_points

SHARES = frozenset((Parameter.CPU_SHARES,))


class Good(Plugin[int]):
    """Wants shares of containers."""

    name: ClassVar[str] = "good"
    summary: ClassVar[str] = "shares"
    stages: ClassVar[frozenset[HookPoint]] = frozenset((HookPoint.PRE_CREATE_CONTAINER,))
    serves: ClassVar[Mapping[Level, frozenset[Parameter]]] = {Level.CONTAINER: SHARES}

    def rule(self, node: NodeInputs, previous: int | None) -> int:
        """A number."""
        return 5

    def container(self, rule: int, context: ContainerContext) -> None:
        """As many."""
        context.response.set(Parameter.CPU_SHARES, rule, "always")


def point(load: Callable[[], Any], name: str = "good", package: str = "acme 1.0") -> InstalledEntryPoint:
    """An entry point of a package."""
    return InstalledEntryPoint(name, "acme:Good", package, load)


def problem(
    *points: InstalledEntryPoint, name: str = "good", taken: tuple[str, ...] = (), timeout: float = 60.0
) -> str:
    """Why a plugin cannot be loaded."""
    (plugin,) = load_plugins([name], points, taken, timeout=timeout)
    assert isinstance(plugin, UnusablePlugin)
    assert plugin.name == name
    return plugin.problem


def test_order_is_that_of_the_setting() -> None:
    """And what nobody wants is not loaded."""

    def never() -> Any:
        raise AssertionError

    class Second(Good):
        name = "second"

    found = [point(lambda: Good), point(lambda: Second, "second"), point(never, "third")]
    assert [type(one) for one in load_plugins(["second", "good"], found, ["OOMScoreAdj"])] == [Second, Good]


def test_a_function_may_make_the_plugin() -> None:
    """Whatever it needs to read of its own settings it reads there."""
    plugin = Good()
    assert load_plugins(["good"], [point(lambda: lambda: plugin)], ()) == (plugin,)


def test_a_name_that_nobody_has() -> None:
    """The names that there are help."""
    text = "no installed package has an entry point 'godo' in interpose.hook_plugins; there are: "
    assert problem(name="godo") == text + "none"
    assert problem(point(lambda: Good), name="godo") == text + "good"


def test_a_name_of_two_packages() -> None:
    """Nobody can say which is meant."""
    text = problem(point(lambda: Good), point(lambda: Good, package="other 2"))
    assert text.startswith(
        "more than one package has an entry point 'good': distribution acme 1.0, entry point good = "
    )
    assert "distribution other 2" in text


def test_a_name_of_our_own() -> None:
    """In any spelling."""
    assert "interpose's own plugins" in problem(point(lambda: Good), taken=("GOOD",))
    assert problem(taken=("Good",)).startswith("the name is that of one of interpose's own plugins")


def test_a_name_that_is_none() -> None:
    """It would be a label of metrics, and a word of settings."""
    assert "letters, digits" in problem(point(lambda: Good, "a b"), name="a b")


def broken_import() -> Any:
    raise ImportError("No module named 'numpy'")


def ends_the_program() -> Any:
    sys.exit("no licence")


@pytest.mark.parametrize(
    ("load", "text"),
    [
        (broken_import, "ImportError: No module named 'numpy' ("),
        (ends_the_program, "SystemExit: no licence ("),
        (lambda: lambda: 1 // 0, "ZeroDivisionError: "),
        (lambda: 5, "TypeError: 'int' object is not callable"),
        (lambda: dict, "made a dict, which is not a Plugin"),
    ],
)
def test_what_cannot_be_loaded(load: Callable[[], Any], text: str) -> None:
    """The problem names distribution, entry point, reason and, where there is one, the line."""
    found = problem(point(load))
    assert found.startswith(f"distribution acme 1.0, entry point good = acme:Good: {text}")


def test_a_module_that_hangs() -> None:
    """Is not waited for."""
    stop = threading.Event()
    try:
        assert problem(point(stop.wait), timeout=0.01).endswith("did not return within 0.01 s")
    finally:
        stop.set()


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"name": "bad"}, "its plugin calls itself 'bad'"),
        ({"summary": None}, "summary is not a text"),
        ({"inputs": ["NodeSLO"]}, "inputs is not a frozenset of Input"),
        ({"stages": frozenset(("PreStart",))}, "stages is not a frozenset of HookPoint"),
        ({"serves": frozenset()}, "serves is not a mapping of levels"),
        ({"serves": {"container": SHARES}}, "serves is not a mapping of levels"),
        ({"serves": {Level.POD: {Parameter.CPU_SHARES}}}, "serves[POD] is not a frozenset of Parameter"),
        ({"serves": {Level.CONTAINER: frozenset((Parameter.CPU_IDLE,))}}, "cpu.idle cannot be set on containers"),
        ({"serves": {}}, "serves nothing and sets no variables"),
    ],
)
def test_lists_that_make_no_sense(attributes: dict[str, Any], text: str) -> None:
    """They are looked at when the plugin is loaded, not when a pod comes."""
    assert text in problem(point(lambda: type("Bad", (Good,), attributes)))


def test_the_others_go_on_and_what_it_set_stays() -> None:
    """One that could not be loaded fails like one without a rule; under Fail that refuses the call."""
    plugins = load_plugins(["gone", "good"], [point(lambda: Good)], ())
    rules = make_rules(plugins, NodeInputs(), PluginRules())
    assert rules.by_plugin == {"good": 5}
    assert "no installed package" in rules.problems["gone"]
    verdict = PluginChain(plugins, rules).container(ContainerContext(pod=Pod(id="p"), request=Container(id="c")))
    assert [wish.value for _, wish in verdict.values.values()] == [5]
    assert [one.plugin for one in verdict.failures] == ["gone"]
    assert verdict.failures[0].text.startswith("has no rule: no installed package")


# -- what is installed


def dist(folder: Path, name: str, *entries: str, version: str = "1.0") -> None:
    """An installed distribution."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *entries, "[console_scripts]", "x = y:z"]))


def found_in(*folders: Path) -> list[tuple[str, str, str]]:
    """What is installed there."""
    places = [str(folder) for folder in folders]
    return [
        (one.name, one.reference, one.distribution)
        for one in find_entry_points(GROUP, lambda: metadata.distributions(path=places))
    ]


def test_entry_points_of_the_group_are_found(tmp_path: Path) -> None:
    """By name, without an import."""
    dist(tmp_path, "zebra", "second = no.such.module:Plugin")
    dist(tmp_path, "acme", "third = a:B", "first = a:C", version="2.1")
    assert found_in(tmp_path) == [
        ("first", "a:C", "acme 2.1"),
        ("second", "no.such.module:Plugin", "zebra 1.0"),
        ("third", "a:B", "acme 2.1"),
    ]


def test_a_distribution_counts_once(tmp_path: Path) -> None:
    """The first on the path, as for imports; a user's copy in front of the system's is no collision."""
    dist(tmp_path / "mine", "a.cme", "first = mine:P", version="2")
    dist(tmp_path / "system", "a_cme", "first = system:P", version="1")
    assert found_in(tmp_path / "mine", tmp_path / "system") == [("first", "mine:P", "a.cme 2")]


def test_metadata_that_cannot_be_read_is_nobodys_plugin(tmp_path: Path) -> None:
    """The others are found."""
    dist(tmp_path, "acme", "first = a:C")
    dist(tmp_path, "broken", "second = b:C")
    (tmp_path / "broken-1.0.dist-info/METADATA").write_bytes(b"\xff\xfe")
    (tmp_path / "broken-1.0.dist-info/entry_points.txt").write_bytes(b"[\xff")
    assert found_in(tmp_path) == [("first", "a:C", "acme 1.0")]


def test_this_environment_can_be_looked_at() -> None:
    """With whatever is installed beside us."""
    assert all(isinstance(one, InstalledEntryPoint) for one in find_entry_points(GROUP))
