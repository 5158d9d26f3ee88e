"""A plugin is tested without a node: a rule and a context in, wishes out."""

import pytest
from night_shift import ANNOTATION, NODE_LABEL, NightRule, NightShift

from interpose.hookplugin import Container, ContainerContext, LinuxResources, NodeInputs, Parameter, Pod


def wishes(said: str, *, shares: int = 1024) -> dict[Parameter, object]:
    """What a container of a pod with this annotation would get on a node that allows 64 shares."""
    pod = Pod(id="p", annotations={ANNOTATION: said})
    container = Container(id="c", requested=LinuxResources(cpu_shares=shares))
    context = ContainerContext(pod=pod, request=container)
    NightShift().container(NightRule(64), context)
    return {parameter: wish.value for parameter, wish in context.response.wishes.items()}


def test_a_container_that_may_wait_has_few_shares() -> None:
    """At most what the node says, less if it asked for less."""
    assert wishes("true") == {Parameter.CPU_SHARES: 64, Parameter.OOM_SCORE_ADJ: 1000}
    assert wishes("true", shares=10)[Parameter.CPU_SHARES] == 10


def test_others_are_left_alone() -> None:
    """No wish at all, so values that were set before are restored."""
    assert wishes("false") == {}


def test_mistakes_are_named() -> None:
    """With annotation or label, and value."""
    with pytest.raises(ValueError, match="'yes'"):
        wishes("yes")
    with pytest.raises(ValueError, match="'many'"):
        NightShift().rule(NodeInputs(labels={NODE_LABEL: "many"}), None)
