"""Which texts count: who was there first keeps what it has."""

import json

from interpose.node.pods.manifest.cache import AcceptedManifests, accept_manifests


def manifest(name: str, image: str = "busybox") -> str:
    """A pod."""
    spec = {"containers": [{"name": "main", "image": image}]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def of(agreed: AcceptedManifests) -> list[tuple[str, str]]:
    """The pods and their files."""
    return [(pod.name, pod.source) for pod in agreed.pods]


def test_without_an_earlier_agreement_the_first_file_counts() -> None:
    """The other one has a problem, and is not part of the agreement."""
    found = accept_manifests({"a": manifest("web"), "b": manifest("web")})
    assert of(found) == [("web", "a")]
    assert list(found.problems) == ["b"]
    assert list(found.texts) == ["a"]


def test_a_pod_may_move_from_one_file_to_another() -> None:
    """If both are edited at once there is nothing wrong."""
    before = accept_manifests({"a": manifest("web"), "b": manifest("db")})
    found = accept_manifests({"a": manifest("db"), "b": manifest("web")}, before)
    assert of(found) == [("db", "a"), ("web", "b")]
    assert not found.problems


def test_a_text_that_gives_way_may_make_others_give_way() -> None:
    """What it said before is what the other one wants to have now."""
    before = accept_manifests({"a": manifest("web"), "b": manifest("db")})
    found = accept_manifests({"a": "kind: [", "b": manifest("web", "other")}, before)
    assert found.pods == before.pods
    assert list(found.problems) == ["a", "b"]
    assert found.texts == before.texts


def test_a_pod_that_another_file_has_by_now_is_not_kept_twice() -> None:
    """Of a file that others made wrong only what nobody else gives stays."""
    text = "kind: ["
    pods = accept_manifests({"a": manifest("web") + "\n---\n" + manifest("db")}).pods
    found = accept_manifests(
        {"a": text, "b": manifest("web", "other")}, AcceptedManifests(pods=pods, texts={"a": text})
    )
    assert of(found) == [("db", "a"), ("web", "b")]


def test_a_file_may_be_empty_from_the_beginning() -> None:
    """Nothing is lost by it."""
    found = accept_manifests({"a": ""}, accept_manifests({"a": "# nothing"}))
    assert found == AcceptedManifests(texts={"a": ""})
