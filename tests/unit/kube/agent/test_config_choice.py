"""Which ConfigMap counts, and what of it goes to the relay."""

import json
from typing import Any

import pytest

from interpose.config.documents.policy_objects import OBJECT_KEY
from interpose.kube.agent.config_choice import (
    MAX_DATA,
    ChoiceResult,
    ConfigChoice,
    ObservedObject,
    SelectedConfig,
    choose,
    digest,
    is_for_other_nodes,
)

NODE = "worker-1.example"


def config_map(data: Any = None, **more: Any) -> dict[str, Any]:
    """As an API server has it."""
    return {"metadata": {"resourceVersion": "7"}, "data": {"policy": "x"} if data is None else data, **more}


def there(name: str, data: Any = None, **more: Any) -> ObservedObject:
    """It exists."""
    return ObservedObject(name, True, config_map(data, **more))


def absent(name: str) -> ObservedObject:
    """It does not exist."""
    return ObservedObject(name, True, None)


def forbidden(name: str) -> ObservedObject:
    """It may not be looked at."""
    return ObservedObject(name, False, None, "no rights", True)


def unseen(name: str) -> ObservedObject:
    """The API server has not answered."""
    return ObservedObject(name, False, None, "refused")


def chosen_from(*seen: ObservedObject, before: str | None = None) -> ConfigChoice:
    """For the node of these tests."""
    return choose(seen, node=NODE, namespace="ns", before=before)


# -- which one


def test_first_that_exists_counts_whole() -> None:
    """Nothing is merged."""
    choice = chosen_from(absent("a"), there("b", {"policy.static": "1"}), there("c", {"policy.none": "2"}))
    assert choice == ConfigChoice(
        verdict=ChoiceResult.CHOSEN, chosen=SelectedConfig(source="ns/b", version="7", data={"policy.static": "1"})
    )


def test_none_exists() -> None:
    """Then the configuration is missing."""
    assert chosen_from(absent("a"), absent("b")).verdict is ChoiceResult.MISSING


def test_one_out_of_sight_is_waited_for() -> None:
    """One of lower order must not be in force for a moment."""
    choice = chosen_from(unseen("a"), there("b"))
    assert choice == ConfigChoice(verdict=ChoiceResult.WAIT)


def test_one_of_lower_order_out_of_sight_does_not_matter() -> None:
    """It would not count anyway."""
    assert chosen_from(there("a"), unseen("b")).verdict is ChoiceResult.CHOSEN


def test_one_that_was_known_still_counts() -> None:
    """An API server that is away, or forbids all of a sudden, says nothing about the map."""
    choice = chosen_from(ObservedObject("a", True, config_map(), "gone", True), there("b"))
    assert choice.chosen is not None
    assert choice.chosen.source == "ns/a"


def test_forbidden_one_is_passed_over() -> None:
    """With a note that says so."""
    choice = chosen_from(forbidden("a"), there("b"))
    assert choice.chosen is not None
    assert choice.chosen.source == "ns/b"
    assert choice.notes == ("ConfigMap ns/a may not be read",)


def test_forbidden_one_that_the_node_went_by_is_not_passed_over() -> None:
    """Another one would be in force by mistake."""
    choice = chosen_from(absent("a"), forbidden("b"), there("c"), before="ns/b")
    assert choice == ConfigChoice(
        verdict=ChoiceResult.FORBIDDEN, problems=("ConfigMap ns/b may not be read",), before="ns/b"
    )


@pytest.mark.parametrize(
    ("before", "verdict"),
    [
        (None, ChoiceResult.UNSEEN),  # nobody knows
        ("ns/z", ChoiceResult.UNSEEN),  # that of a group it was in before
        ("ns/b", ChoiceResult.MISSING),  # what it went by is gone
        ("", ChoiceResult.MISSING),  # it went by none
    ],
)
def test_forbidden_and_absent(before: str | None, verdict: ChoiceResult) -> None:
    """What a node has is taken back only if it is known that it is from none of those that cannot be seen."""
    choice = chosen_from(forbidden("a"), absent("b"), before=before)
    assert choice.verdict is verdict
    assert choice.notes == ("ConfigMap ns/a may not be read",)


def test_all_forbidden() -> None:
    """Then nothing is known at all."""
    choice = chosen_from(forbidden("a"), ObservedObject("b", False, None, "", True))
    assert choice.verdict is ChoiceResult.FORBIDDEN
    assert len(choice.problems) == 2


@pytest.mark.parametrize("rest", [(), (there("b"),)])
def test_map_that_the_node_went_by_is_gone(rest: tuple[ObservedObject, ...]) -> None:
    """Whether another one takes its place or not."""
    assert chosen_from(absent("a"), *rest, before="ns/a").gone
    assert not chosen_from(absent("a"), *rest, before="ns/b").gone


@pytest.mark.parametrize("rest", [(), (there("b"),)])
@pytest.mark.parametrize(("closed", "sure"), [(False, False), (True, True)])
def test_missing_a_while_ago(rest: tuple[ObservedObject, ...], closed: bool, sure: bool) -> None:
    """It may be there again. One that we lost the right to see after it was gone was taken away for good."""
    gone = ObservedObject("a", True, None, "refused", closed, False)
    assert chosen_from(gone, *rest).sure is sure


def test_nothing_is_followed() -> None:
    """Nothing is known."""
    assert chosen_from().verdict is ChoiceResult.WAIT


# -- content


@pytest.mark.parametrize(
    ("key", "dropped"),
    [
        ("policy", False),
        ("policy.static", False),
        ("policy.static.", False),
        (f"policy.static.{NODE}", False),
        ("policy.static.worker-2.example", True),
        ("policy.static.worker-1", True),
        ("policy.STP.worker-2", True),
        ("policy.static.RelaxedIsolation", False),
        ("policy.static.relaxedisolation.example", False),
        ("policy.static-pools.pools.x", False),
        ("policy.statik.worker-2", False),
        ("policy.topology-aware.worker-2", True),
        ("policy.Active", False),
        ("logger.x.worker-2", False),
        ("README", False),
    ],
)
def test_keys_of_other_nodes(key: str, dropped: bool) -> None:
    """Only what the relay passes over in silence is left out."""
    assert is_for_other_nodes(key, NODE) is dropped
    choice = chosen_from(there("a", {key: "x"}))
    assert choice.chosen is not None
    assert (key not in choice.chosen.data) is dropped


def test_keys_of_other_nodes_may_be_anything() -> None:
    """Their trouble is not ours."""
    choice = chosen_from(there("a", {"policy.static.other": 3}, binaryData={"policy.none.other": "AAAA"}))
    assert choice.verdict is ChoiceResult.CHOSEN


@pytest.mark.parametrize("data", [None, {}])
def test_map_without_data(data: Any) -> None:
    """It says that nothing is wanted, which is not the same as being missing."""
    found = {"metadata": {}} if data is None else config_map(data)
    choice = chosen_from(ObservedObject("a", True, found))
    assert choice.verdict is ChoiceResult.CHOSEN
    assert choice.chosen is not None
    assert choice.chosen.data == {}


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (config_map({"policy.static": 3}), "ConfigMap ns/a: key policy.static: expected text"),
        (config_map({"policy.static": "\ud800"}), "ConfigMap ns/a: key policy.static: expected text"),
        (config_map("text"), "ConfigMap ns/a: data: expected texts by key"),
        (
            config_map({}, binaryData={"policy.static": "AAAA"}),
            "ConfigMap ns/a: key policy.static: is binary (not UTF-8 text), expected text",
        ),
        (
            config_map({"a": "ä" * (MAX_DATA // 2)}),
            f"ConfigMap ns/a: has {MAX_DATA + 1} bytes of data, at most {MAX_DATA} can be sent to the relay",
        ),
    ],
)
def test_map_that_cannot_be_sent(found: dict[str, Any], problem: str) -> None:
    """It counts all the same, and everything in the way is named."""
    choice = chosen_from(ObservedObject("a", True, found), there("b"))
    assert choice.verdict is ChoiceResult.UNUSABLE
    assert choice.problems == (problem,)


def test_binary_key_that_nobody_reads() -> None:
    """A note is enough."""
    choice = chosen_from(there("a", {}, binaryData={"logo.png": "AAAA"}))
    assert choice.verdict is ChoiceResult.CHOSEN
    assert choice.notes == ("ConfigMap ns/a: key logo.png: is binary, has no effect",)


@pytest.mark.parametrize("metadata", [None, {"resourceVersion": 3}])
def test_map_without_a_version(metadata: Any) -> None:
    """No API server sends such a thing, and nothing breaks."""
    choice = chosen_from(ObservedObject("a", True, {"metadata": metadata, "data": {}}))
    assert choice.chosen is not None
    assert choice.chosen.version == ""


# -- comparing


def test_digest_is_that_of_the_content() -> None:
    """The order of keys is not content."""
    one = SelectedConfig(source="a", version="1", data={"a": "1", "b": "2"})
    assert one.digest == digest({"b": "2", "a": "1"})
    assert one.digest != digest({"a": "1"})


def test_same_is_about_source_and_content() -> None:
    """Versions change for other reasons too."""
    one = SelectedConfig(source="a", version="1", data={"a": "1"})
    assert one.same(SelectedConfig(source="a", version="2", data={"a": "1"}))
    assert not one.same(SelectedConfig(source="b", version="1", data={"a": "1"}))
    assert not one.same(SelectedConfig(source="a", version="1", data={}))
    assert not one.same(None)


# -- objects of policies


def policy_object(name: str, spec: Any = None, **more: Any) -> ObservedObject:
    """The object of a policy, as an API server lists it: without its kind, with a status of others."""
    metadata = {"name": name, "resourceVersion": "7", "generation": 3, "uid": "u", "labels": {"a": "b"}}
    found = {"metadata": metadata, "spec": spec, "status": {"nodes": {"n2": {}}}, **more}
    return ObservedObject(name, True, found, kind="BalloonsPolicy")


def test_the_object_of_a_policy_is_sent_as_one_text() -> None:
    """What it is, where it is and its spec; a status that others write is no other content."""
    choice = chosen_from(policy_object("default", {"pinCPU": True}))
    assert choice.verdict is ChoiceResult.CHOSEN
    assert choice.chosen is not None
    assert (choice.chosen.source, choice.chosen.generation) == ("BalloonsPolicy ns/default", 3)
    assert choice.chosen.title == "BalloonsPolicy ns/default"
    assert {key: json.loads(text) for key, text in choice.chosen.data.items()} == {
        OBJECT_KEY: {
            "apiVersion": "config.nri/v1alpha1",
            "kind": "BalloonsPolicy",
            "metadata": {"namespace": "ns", "name": "default"},
            "spec": {"pinCPU": True},
        }
    }
    other = chosen_from(policy_object("default", {"pinCPU": True}, status={}))
    assert choice.chosen.same(other.chosen)


def test_another_generation_is_another_configuration() -> None:
    """It may say the same, and whoever waits for it has to learn that it is in force."""
    one = SelectedConfig(source="a", version="1", data={}, generation=1)
    assert not one.same(SelectedConfig(source="a", version="1", data={}, generation=2))


def test_objects_and_maps_of_one_name_are_different_sources() -> None:
    """The one that the node went by is known by its kind as well."""
    gone = ObservedObject("default", True, None, kind="BalloonsPolicy")
    assert chosen_from(gone, there("x"), before="BalloonsPolicy ns/default").gone
    assert not chosen_from(gone, there("x"), before="ns/default").gone
    closed = ObservedObject("default", False, None, "no rights", True, kind="BalloonsPolicy")
    assert chosen_from(closed, there("x")).notes == ("BalloonsPolicy ns/default may not be read",)


def test_an_object_without_a_generation_has_none() -> None:
    """Whatever an API server sends."""
    found = {"metadata": {"generation": "x"}, "spec": {}}
    choice = chosen_from(ObservedObject("a", True, found, kind="BalloonsPolicy"))
    assert choice.chosen is not None
    assert (choice.chosen.generation, choice.chosen.version) == (0, "")


def test_an_object_that_is_too_large_cannot_be_sent() -> None:
    """As with a ConfigMap."""
    choice = chosen_from(policy_object("a", {"text": "x" * MAX_DATA}))
    assert choice.verdict is ChoiceResult.UNUSABLE
    assert choice.problems[0].startswith("BalloonsPolicy ns/a: has ")
