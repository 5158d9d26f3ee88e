"""The webhook: any bytes get an answer, and what it writes is read back by relays as it was asked for."""

import base64
import copy
import json
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interpose.core.model.quantity import parse_quantity
from interpose.kube.webhook.annotate import KNOWN_KEYS
from interpose.kube.webhook.review import AnnotationRules, BadReviewError, ReviewResult, review
from interpose.kube.webhook.validity import validity_of
from interpose.resmgr.container_request import read_annotation

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
# The words that are looked for, so that what is made up gets further than the first check.
WORDS = st.sampled_from(
    ["CREATE", "UPDATE", "pods", "v1", "", "u", "resize", "AdmissionReview", "admission.k8s.io/v1", *KNOWN_KEYS]
)
FIELDS = st.sampled_from(
    [
        *("kind", "apiVersion", "request", "uid", "operation", "resource", "group", "version", "object", "oldObject"),
        *("metadata", "annotations", "spec", "containers", "initContainers", "name", "resources", "requests", "limits"),
        *("subResource", "dryRun", "cpu"),
    ]
)
ALMOST = st.recursive(
    SCALARS | WORDS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=8)
)

AMOUNTS = st.builds(
    lambda number, suffix: f"{number}{suffix}",
    st.integers(0, 4096),
    st.sampled_from(["", "m", "k", "Ki", "Mi", "e2"]),
)
RESOURCES = st.dictionaries(
    st.sampled_from(["cpu", "memory", "hugepages-2Mi", "cmk.intel.com/exclusive-cores"]), AMOUNTS
)
NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True)
PARTS = st.fixed_dictionaries({}, optional={"requests": RESOURCES | st.none(), "limits": RESOURCES | st.none()})


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    """Pods with containers of different names, and annotations of anybody's."""
    names = draw(st.lists(NAMES, unique=True, min_size=1, max_size=6))
    first = draw(st.integers(0, len(names) - 1))

    def containers(chosen: list[str]) -> list[dict[str, Any]]:
        return [{"name": name, "resources": draw(PARTS | st.none())} for name in chosen]

    keys = st.sampled_from([*KNOWN_KEYS, "example.com/other"])
    annotations = draw(st.none() | st.dictionaries(keys, st.text(max_size=20), max_size=3))
    return {
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"initContainers": containers(names[:first]) or None, "containers": containers(names[first:])},
    }


def asked(pod: object, **more: object) -> bytes:
    """A review of a pod."""
    resource = {"group": "", "version": "v1", "resource": "pods"}
    request = {"uid": "u", "operation": "CREATE", "resource": resource, "object": pod, **more}
    return json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}).encode()


def patched(pod: dict[str, Any], body: bytes) -> dict[str, Any]:
    """The pod as an API server would make it of the answer; only what we do is understood."""
    changed = copy.deepcopy(pod)
    patch = json.loads(body)["response"].get("patch")
    for step in json.loads(base64.b64decode(patch)) if patch else ():
        assert step["op"] == "add"
        *way, last = (part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:])
        place: Any = changed
        for part in way:
            place = place[part]
        place[last] = step["value"]
    return changed


def check_total(body: bytes, rules: AnnotationRules) -> None:
    """An answer with the uid, or a reason why there is none."""
    try:
        answer = review(body, rules)
    except BadReviewError:
        return
    document = json.loads(answer.body)
    assert document["kind"] == "AdmissionReview"
    assert document["response"]["uid"] == answer.uid
    assert document["response"]["allowed"] is (answer.result is not ReviewResult.UNREADABLE or not rules.deny)
    assert answer.result is not ReviewResult.PATCHED or document["response"]["patchType"] == "JSONPatch"


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_answered_or_refused(body: bytes, deny: bool) -> None:
    """Never an exception of another kind."""
    check_total(body, AnnotationRules(deny=deny))


@given(JSON | ALMOST, st.booleans())
def test_any_json_is_answered_or_refused(document: object, deny: bool) -> None:
    """NaN and all."""
    check_total(json.dumps(document).encode(), AnnotationRules(deny=deny))


@given(ALMOST, ALMOST, st.sampled_from(["CREATE", "UPDATE"]), st.booleans())
def test_any_object_is_answered(pod: object, old: object, operation: str, deny: bool) -> None:
    """Whatever stands in place of a pod, the one before too."""
    check_total(asked(pod, operation=operation, oldObject=old), AnnotationRules(deny=deny))


@given(pods(), st.sampled_from([KNOWN_KEYS[:1], KNOWN_KEYS[1:], KNOWN_KEYS, ("example.com/own",)]))
def test_relays_read_what_pods_ask_for(pod: dict[str, Any], keys: tuple[str, ...]) -> None:
    """Under the name that counts, whatever a user wrote there; nothing else of the pod changes."""
    changed = patched(pod, review(asked(pod), AnnotationRules(keys=keys)).body)
    annotations = changed["metadata"]["annotations"]
    for key in keys:
        said = read_annotation({KNOWN_KEYS[0]: annotations[key]})
        assert said is not None
        for container in [*(pod["spec"]["initContainers"] or ()), *pod["spec"]["containers"]]:
            read = said.container(container["name"])
            given_ = container["resources"] or {}
            for part, found in (("requests", read.requests), ("limits", read.limits)):
                assert found == {name: parse_quantity(text) for name, text in (given_.get(part) or {}).items()}
    believed = read_annotation(annotations)
    assert believed is None or annotations[believed.name] == annotations[keys[0]]
    before = pod["metadata"]["annotations"] or {}
    ours = {*keys, *KNOWN_KEYS}
    assert {k: v for k, v in annotations.items() if k not in ours} == {k: v for k, v in before.items() if k not in ours}
    assert changed["spec"] == pod["spec"]


@given(pods(), st.sampled_from([KNOWN_KEYS[:1], KNOWN_KEYS]))
def test_asked_again_there_is_nothing_to_do(pod: dict[str, Any], keys: tuple[str, ...]) -> None:
    """Also when another webhook has put things in another order."""
    rules = AnnotationRules(keys=keys)
    changed = patched(pod, review(asked(pod), rules).body)
    changed["spec"]["containers"].reverse()
    again = review(asked(changed), rules)
    assert again.result is ReviewResult.UNCHANGED
    assert "patch" not in json.loads(again.body)["response"]


@given(st.binary(max_size=120))
def test_any_certificate_is_read_or_refused(data: bytes) -> None:
    """Files can hold anything."""
    text = f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(data).decode()}\n-----END CERTIFICATE-----\n"
    for pem in (text, data.decode("latin-1")):
        with suppress(ValueError):
            validity_of(pem)
