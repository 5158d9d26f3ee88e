"""Affinities: how they are read, whom they are about, and what they are worth in each pool."""

import pytest

from interpose.core.policy.request import Key, Request
from interpose.core.policy.topology_aware.affinity import (
    Affinity,
    RequestIndex,
    affinity_scores,
    read_affinities,
    shown_score,
    weigh_pools,
)
from interpose.core.policy.topology_aware.pool_tree import PoolTree
from tests.support.policy.machines import machine

NEAR, FAR = "resource-policy.nri.io/affinity", "resource-policy.nri.io/anti-affinity"
OLD = "cri-resource-manager.intel.com/affinity"


def ask(name: str, pod: str = "pod", namespace: str = "default", **notes: str) -> Request:
    """A container; `notes` are those of its pod, near and far."""
    keys = {{"near": NEAR, "far": FAR, "old": OLD}[key]: text for key, text in notes.items()}
    return Request(key=Key(pod, name), namespace=namespace, pod=pod, pod_annotations=keys)


def weights(request: Request, *others: tuple[Request, int]) -> dict[int, int]:
    """By pool."""
    return weigh_pools(request, read_affinities(request), others)


def test_simple_affinities_hold_in_both_directions() -> None:
    """Between containers of the same pod."""
    others = [(ask("a"), 0), (ask("b"), 1), (ask("c"), 2), (ask("b", "other"), 3)]
    assert weights(ask("a", near="a: [b]"), *others) == {1: 1}
    assert weights(ask("b", near="a: [b]"), *others) == {0: 1}
    assert weights(ask("b", near="a: [b]\nb: [a, c]", far="c: [b]"), *others) == {0: 1, 2: 0}
    assert weights(ask("c", near="a: [b]"), *others) == {}


def test_full_affinities_have_scopes_and_weights() -> None:
    """Without a scope it is the same pod; anti-affinities count against."""
    text = "a: [{match: {key: name, operator: In, values: [b]}, weight: 5}]"
    wide = text.replace("{match", "{scope: {operator: AlwaysTrue}, match")
    others = [(ask("b"), 1), (ask("b", "other"), 2), (ask("c"), 3)]
    assert weights(ask("a", near=text), *others) == {1: 5}
    assert weights(ask("a", near=wide), *others) == {1: 5, 2: 5}
    assert weights(ask("a", far=wide), *others) == {1: -5, 2: -5}
    assert weights(ask("b", near=text), *others) == {}


def test_weights_have_bounds() -> None:
    """One is usual, a thousand the most."""
    text = "a: [{match: {key: name, operator: Exists}%s}]"
    assert weights(ask("a", near=text % ", weight: 99999"), (ask("b"), 0)) == {0: 1000}
    assert weights(ask("a", near=text % ", weight: -99999"), (ask("b"), 0)) == {0: -1000}
    assert weights(ask("a", near=text % ""), (ask("b"), 0)) == {0: 1}


def test_nobody_is_drawn_to_himself() -> None:
    """Although he matches."""
    request = ask("a", near="a: [{match: {key: name, operator: Exists}}]")
    assert weights(request, (request, 0)) == {}
    assert weights(ask("a", near="a: [a]"), (ask("a"), 0)) == {}


def test_the_newer_family_of_annotations_counts() -> None:
    """The older one if it is alone."""
    assert read_affinities(ask("a", old="a: [b]")) == (Affinity(weight=1, name="b"),)
    assert read_affinities(ask("a", old="a: [b]", near="a: [c]")) == (Affinity(weight=1, name="c"),)
    assert read_affinities(ask("a")) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a]", "is not a map of containers"),
        ("a: b", r"\.a: is not a list"),
        ("a: [{weight: 1}]", "match is missing"),
        ("a: [b, {match: x}]", r"a\[0\]: is neither a list of containers"),
        ("a: [{match: {key: name, operator: Exists}, wait: 1}]", "has only scope, match and weight"),
        ("a: [{match: {key: name, operator: Exists}, weight: x}]", r"weight: 'x' is not a whole number"),
        ("a: [{match: name}]", "is not an expression with key, operator and values"),
        ("a: [{match: {key: name, operator: Like}}]", "operator: 'Like' is none of Equals"),
        ("a: [{match: {key: name, operator: In, values: [[b]]}}]", "is not a list of texts"),
        ("a: [{match: {key: nam, operator: Exists}}]", "key 'nam' is none of"),
        ("a: [{match: {key: name, operator: Equals, values: [b, c]}}]", "takes one value"),
        ("b: [{match: {key: nam, operator: Exists}}]", "key 'nam' is none of"),  # of whichever container
    ],
)
def test_what_cannot_be_read_is_told(text: str, expected: str) -> None:
    """With the annotation and the place in it."""
    with pytest.raises(ValueError, match=f"annotation {NEAR}.*{expected}"):
        read_affinities(ask("a", near=text))


def test_a_single_value_needs_no_list() -> None:
    """As people write it."""
    request = ask("a", near="a: [{match: {key: name, operator: Equals, values: b}}]")
    assert weights(request, (ask("b"), 4)) == {4: 1}


# The table of a server: socket 0 has nodes 0 and 2, socket 1 has nodes 1 and 3.
@pytest.mark.parametrize(
    ("found", "best"),
    [
        ({"NUMA node #1": 1}, "NUMA node #1"),
        ({"socket #1": 1}, "socket #1"),
        ({"socket #1": 1, "NUMA node #1": 1}, "NUMA node #1"),
        ({"NUMA node #1": 1, "NUMA node #3": 1}, "socket #1"),
        ({"NUMA node #1": 2, "NUMA node #3": 1}, "socket #1"),
        ({"NUMA node #1": 3, "NUMA node #3": 1}, "NUMA node #1"),  # the same, and narrower
        ({"NUMA node #0": 2, "NUMA node #3": 2, "socket #1": 1}, "root"),
        ({"NUMA node #0": 1, "NUMA node #3": 1, "socket #1": 1}, "root"),
        ({"NUMA node #0": 1, "NUMA node #3": 1, "socket #1": 2}, "socket #1"),
    ],
)
def test_the_pool_that_affinities_draw_to(found: dict[str, int], best: str) -> None:
    """Three quarters of a weight with each step up or down; nothing from beside."""
    topology = machine("server")
    tree = PoolTree.of(topology, topology.online)
    scores = affinity_scores(tree, {tree.by_name[name].id: weight for name, weight in found.items()})
    assert max(tree.pools, key=lambda pool: (scores[pool.id], pool.depth)).name == best


def test_scores_are_shown_as_weights() -> None:
    """That of a container in the pool itself, and one level further up."""
    topology = machine("n4c16")
    tree = PoolTree.of(topology, topology.online)
    scores = affinity_scores(tree, {tree.by_name["NUMA node #1"].id: 4})
    shown = {pool.name: shown_score(tree, scores[pool.id]) for pool in tree.pools}
    assert (shown["NUMA node #1"], shown["socket #0"], shown["root"], shown["NUMA node #0"]) == (4, 3, 2.25, 0)


def test_the_options_draw_containers_together() -> None:
    """Those of a pod, of a namespace, or both."""
    index = RequestIndex()
    index.put(ask("a"), 0)
    index.put(ask("b"), 1)
    index.put(ask("c", "other"), 2)
    index.put(ask("d", "third", "elsewhere"), 3)
    me = ask("a")
    assert index.colocated(me, pods=True, namespaces=False) == {1: 10}
    assert index.colocated(me, pods=False, namespaces=True) == {1: 10, 2: 10}
    assert index.colocated(me, pods=True, namespaces=True) == {1: 20, 2: 10}
    index.drop(Key("pod", "b"))
    assert [pool for _, pool in index] == [0, 2, 3]
