"""OOM scores by annotation."""

import pytest

from interpose.core.model.cgroup import Level, Parameter
from interpose.core.model.pod import Container, Pod
from interpose.hooks.server.context import ContainerContext
from interpose.hooks.server.evaluate import PluginChain
from interpose.hooks.server.node.rules import PluginRules, make_rules
from interpose.hooks.server.plugin import NodeInputs
from interpose.hooks.server.plugins.oom_score import OomScoreAdj

POD_KEY = "koordinator.sh/oom-score-adj"
SPEC_KEY = "koordinator.sh/oom-score-adj-spec"
PLUGIN = OomScoreAdj()


def asked(annotations: dict[str, str], container: str = "main") -> tuple[object, str] | None:
    """What a container gets, and why."""
    context = ContainerContext(pod=Pod(id="p", annotations=annotations), request=Container(id="c", name=container))
    PLUGIN.container(PLUGIN.rule(NodeInputs(), None), context)
    return context.response.wishes.get(Parameter.OOM_SCORE_ADJ)


@pytest.mark.parametrize(
    ("annotations", "value"),
    [
        ({SPEC_KEY: '{"main":-500,"side":700}'}, -500),
        ({SPEC_KEY: '{"main":0}', POD_KEY: "300"}, 0),
        ({SPEC_KEY: '{"side":700}', POD_KEY: "300"}, 300),
        ({POD_KEY: "-1000"}, -1000),
        ({POD_KEY: "1000"}, 1000),
        ({SPEC_KEY: '{"main":5}', POD_KEY: "many"}, 5),
    ],
)
def test_own_value_beats_that_of_the_pod(annotations: dict[str, str], value: int) -> None:
    """Zero is a value like any other."""
    wish = asked(annotations)
    assert wish is not None
    assert wish[0] == value


@pytest.mark.parametrize("annotations", [{}, {SPEC_KEY: "{}"}, {SPEC_KEY: '{"side":700}'}, {SPEC_KEY: '{"Main":700}'}])
def test_container_nobody_speaks_of_is_left_alone(annotations: dict[str, str]) -> None:
    """Names of containers are exact."""
    assert asked(annotations) is None


@pytest.mark.parametrize("spec", ["{", '{"main":"-500"}', '{"main":1001}', "[]"])
def test_bad_map_leaves_the_value_of_the_pod(spec: str) -> None:
    """And the reason tells of it, so that it is not lost."""
    wish = asked({SPEC_KEY: spec, POD_KEY: "300"})
    assert wish is not None
    value, why = wish
    assert value == 300
    assert why.startswith(f"annotation {POD_KEY}; annotation {SPEC_KEY}")


def test_bad_map_without_a_value_of_the_pod_is_an_error() -> None:
    """That names annotation and value."""
    with pytest.raises(ValueError, match=rf"{SPEC_KEY}\['main'\].*-1000 to 1000.*1001"):
        asked({SPEC_KEY: '{"main":1001}'})


@pytest.mark.parametrize("text", ["", "many", "1.5", "1001", "-1001", "0x10"])
def test_bad_value_of_the_pod_is_an_error(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match=f"annotation {POD_KEY}: "):
        asked({POD_KEY: text})


def test_both_being_bad_is_said_of_both() -> None:
    """Who mends one learns of the other."""
    with pytest.raises(ValueError, match=f"{SPEC_KEY}.*; annotation {POD_KEY}: "):
        asked({SPEC_KEY: "{", POD_KEY: "many"})


def test_sandbox_is_not_asked_about() -> None:
    """The container that holds the pod together keeps the runtime's value."""
    rules = make_rules([PLUGIN], NodeInputs(), PluginRules())
    pod = Pod(id="p", annotations={POD_KEY: "300"})
    hooks = PluginChain([PLUGIN], rules)
    sandbox = ContainerContext(pod=pod, request=Container(id="s"), level=Level.SANDBOX)
    assert not hooks.container(sandbox).values
    assert hooks.container(ContainerContext(pod=pod, request=Container(id="c"))).values
