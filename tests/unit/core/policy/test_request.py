"""Requests: keys, titles, and which annotation holds for a container."""

import pytest

from interpose.core.policy.request import Amounts, Key, Request

KEY = "about.example"


def request(annotations: dict[str, str], name: str = "app") -> Request:
    return Request(key=Key("pod-1", name, 2), pod_annotations=annotations)


@pytest.mark.parametrize(
    ("annotations", "value"),
    [
        ({}, None),
        ({KEY: "all"}, "all"),
        ({KEY: "all", f"{KEY}/pod": "pod"}, "pod"),
        ({KEY: "all", f"{KEY}/pod": "pod", f"{KEY}/container.app": "mine"}, "mine"),
        ({KEY: "all", f"{KEY}/container.other": "its"}, "all"),
        ({f"{KEY}/container.app": "", KEY: "all"}, ""),
    ],
)
def test_the_closest_annotation_holds(annotations: dict[str, str], value: str | None) -> None:
    """That of the container, else that of the pod, else the plain key; an empty one holds too."""
    assert request(annotations).annotation(KEY) == value


def test_a_key_names_one_container() -> None:
    """Attempts are different containers."""
    assert str(Key("pod-1", "app", 2)) == "pod-1/app/2"
    assert Key("pod-1", "app") != Key("pod-1", "app", 1)


def test_a_request_says_how_much_and_for_whom() -> None:
    """The properties are short names of its parts."""
    made = Request(key=Key("id", "app"), namespace="shop", pod="web", amounts=Amounts(milli=1500))
    assert made.milli == 1500
    assert made.title == "shop/web/app"


def test_twins_have_keys_of_their_own() -> None:
    """And the first one has the key that everybody has."""
    first = Key("pod-1", "app", 2)
    assert [str(one) for one in (first, first.next, first.next.next)] == [
        "pod-1/app/2",
        "pod-1/app/2+1",
        "pod-1/app/2+2",
    ]
    assert first == ("pod-1", "app", 2, 0)
