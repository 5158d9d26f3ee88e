"""The annotation and the patch that brings it, in the corners that whole reviews do not show."""

import json
from typing import Any

import pytest

from interpose.kube.webhook.annotate import (
    KNOWN_KEYS,
    MAX_ANNOTATIONS,
    MAX_COMMAS,
    MAX_TEXT,
    UnreadableError,
    patch_for,
    resources_text,
    same_for_us,
)
from interpose.resmgr import container_request

KEY = KNOWN_KEYS[0]
TEXT = '{"containers":{"c":{}}}'


def pod(annotations: object = None, *names: str) -> dict[str, Any]:
    """A pod whose containers ask for nothing."""
    return {
        "metadata": {"annotations": annotations},
        "spec": {"containers": [{"name": name} for name in names or ("c",)]},
    }


def test_limits_and_names_are_those_of_relays() -> None:
    """What is written here is read there."""
    assert container_request.ANNOTATIONS == KNOWN_KEYS
    assert container_request.MAX_TEXT == MAX_TEXT
    assert container_request._MAX_COMMAS == MAX_COMMAS


def test_the_order_of_things_does_not_matter() -> None:
    """The same pod written another way has the same text."""
    assert resources_text(pod(None, "a", "b")) == resources_text(pod(None, "b", "a"))


def test_several_names_get_the_same_text() -> None:
    """And what is right under one of them is left alone."""
    patch = patch_for(pod({"a.example/x": TEXT}), ("a.example/x", "b.example/y~z"))
    assert patch.operations == ({"op": "add", "path": "/metadata/annotations/b.example~1y~0z", "value": TEXT},)


def test_too_many_commas_leave_the_annotation_out() -> None:
    """Relays would not read it; one that is there is taken away, whoever wrote it."""
    many = [f"c{number}" for number in range(MAX_COMMAS + 2)]
    patch = patch_for(pod({KEY: "{}"}, *many), (KEY,))
    assert patch.operations == ({"op": "remove", "path": "/metadata/annotations/intel.com~1resources"},)
    assert patch.left_out == f"it would have {MAX_COMMAS + 1} commas, more than the {MAX_COMMAS} that are read"


def test_the_last_pod_that_fits_is_annotated() -> None:
    """The limit itself is within."""
    patch = patch_for(pod({}, *[f"c{number}" for number in range(MAX_COMMAS + 1)]), (KEY,))
    assert len(patch.operations) == 1
    assert container_request.ResourceAnnotation(KEY, patch.operations[0]["value"]).container("c1024").requests == {}


def test_too_much_text_leaves_the_annotation_out() -> None:
    """There is nothing to take away, so there is no patch."""
    patch = patch_for(pod({}, *[f"{number:063}" for number in range(600)]), (KEY,))
    assert patch.operations == ()
    assert "characters, more than the 32768 that are read" in patch.left_out


def test_a_pod_full_of_annotations_gets_no_more() -> None:
    """Kubernetes would refuse the pod. What we replace does not count twice."""
    full = {"x": "y" * (MAX_ANNOTATIONS - 100)}
    assert patch_for(pod(full), (KEY,)).left_out == ""
    assert patch_for(pod({**full, KEY: "z" * 200}), (KEY,)).left_out == ""
    left_out = patch_for(pod({**full, "w": "y" * 80}), (KEY,)).left_out
    assert left_out.startswith("all annotations together would have 262")


def test_values_that_are_no_text_are_replaced() -> None:
    """An API server would not send them."""
    assert patch_for(pod({KEY: 5, "other": []}), (KEY,)).operations[0]["value"] == TEXT


def test_an_update_is_ours_if_resources_or_annotations_changed() -> None:
    """Of either name; nothing else matters."""
    assert same_for_us(pod({"x": "1"}), pod({"x": "2"}), (KEY,))
    assert not same_for_us(pod(None, "a"), pod(None, "b"), (KEY,))
    for key in (*KNOWN_KEYS, "own.example/x"):
        assert not same_for_us(pod({key: TEXT}), pod(), ("own.example/x",))


def test_values_of_no_known_kind_have_a_message_too() -> None:
    """Nothing that is handed over here makes it fail in another way."""
    with pytest.raises(UnreadableError, match="expected a list, found something else"):
        resources_text({"spec": {"containers": 1.5}})


def test_amounts_of_the_pod_as_a_whole_are_told() -> None:
    """As they are written, and read by relays; a pod without such amounts says nothing of it."""
    both = {"cpu": "4", "memory": "1Gi"}
    found = pod()
    found["spec"]["resources"] = {"requests": both, "limits": both, "claims": [{"name": "x"}]}
    text = resources_text(found)
    assert json.loads(text)["resources"] == {"requests": both, "limits": both}
    read = container_request.ResourceAnnotation(KEY, text).pod()
    assert read is not None
    assert read.amounts().milli == 4000
    found["spec"]["resources"] = {"requests": {}, "limits": None}
    assert resources_text(found) == TEXT
    assert container_request.ResourceAnnotation(KEY, TEXT).pod() is None


def test_amounts_of_the_pod_that_are_none_are_named() -> None:
    """With their place."""
    found = pod()
    found["spec"]["resources"] = {"limits": ["4"]}
    with pytest.raises(UnreadableError, match=r"spec\.resources\.limits: expected an object, found a list"):
        resources_text(found)
