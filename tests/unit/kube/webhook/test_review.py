"""Reviews: whole ones as API servers send them, side by side with their answers; and everything that is none."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from interpose.kube.webhook.review import (
    MAX_VALUES,
    AnnotationRules,
    BadReviewError,
    ReviewResult,
    TooMuchError,
    review,
)

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.json"))
RULES = AnnotationRules()
POD: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
PODS = {"group": "", "version": "v1", "resource": "pods"}


def ask(request: object, *, rules: AnnotationRules = RULES, **document: object) -> tuple[dict[str, Any], ReviewResult]:
    """Review a request: the response part of the answer, and what is counted."""
    asked = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request, **document}
    answer = review(json.dumps(asked).encode(), rules)
    return json.loads(answer.body)["response"], answer.result


def about(**more: object) -> dict[str, Any]:
    """A request that creates a pod, with changes."""
    return {"uid": "u", "operation": "CREATE", "resource": PODS, "object": POD, **more}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    """Question and answer, word by word; only the patch is unpacked."""
    case = json.loads(path.read_text())
    answer = json.loads(review(json.dumps(case["request"]).encode(), RULES).body)
    if (patch := answer["response"].get("patch")) is not None:
        answer["response"]["patch"] = json.loads(base64.b64decode(patch))
    assert answer == case["response"]


def test_there_are_golden_reviews() -> None:
    """A folder that was moved would test nothing."""
    assert len(GOLDEN) >= 28


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe{}", "not JSON"),
        (b"{", "not JSON"),
        (b'{"request": NaN}', "not JSON: NaN is not a number"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"[]", "it is not an object"),
        (b"7", "it is not an object"),
        (b"{}", "it has no request"),
        (b'{"request": []}', "it has no request"),
        (b'{"request": {}}', "has no uid"),
        (b'{"request": {"uid": ""}}', "has no uid"),
        (b'{"request": {"uid": 5}}', "has no uid"),
        (b'{"request": {"uid": "' + b"x" * 300 + b'"}}', "has no uid"),
    ],
    ids=str,
)
def test_what_has_no_uid_cannot_be_answered(body: bytes, reason: str) -> None:
    """Who sent it learns what is wrong."""
    with pytest.raises(BadReviewError, match=reason):
        review(body, RULES)


@pytest.mark.parametrize("value", [b"1,", b"{},", b'"":[],'])
def test_more_values_than_any_pod_has_are_not_even_parsed(value: bytes) -> None:
    """It is not JSON, and nobody finds out: what it would cost is known before."""
    body = value * (MAX_VALUES + 1)
    with pytest.raises(TooMuchError, match=f"more than the {MAX_VALUES} that are read"):
        review(body, RULES)


def test_as_many_values_as_there_may_be_are_read() -> None:
    """The limit itself is none too many."""
    many = b",".join([b"1"] * (MAX_VALUES - 2))
    with pytest.raises(BadReviewError, match="has no uid"):
        review(b'{"request": {"a": [' + many + b"]}}", RULES)
    with pytest.raises(TooMuchError):
        review(b'{"request": {"a": [1,' + many + b"]}}", RULES)


def test_numbers_of_any_size_are_only_text() -> None:
    """Nothing is computed with what stands in a pod."""
    huge = b"9" * 5000
    body = (
        b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CREATE",'
        b'"resource":{"group":"","version":"v1","resource":"pods"},"object":{"metadata":{"annotations":{}},"spec":'
        b'{"containers":[{"name":"c","resources":{"requests":{"cpu":1e999999,"memory":' + huge + b"}}}]}}}}"
    )
    response = json.loads(review(body, RULES).body)["response"]
    patch = json.loads(base64.b64decode(response["patch"]))
    said = json.loads(patch[0]["value"])["containers"]["c"]["requests"]
    assert said == {"cpu": "1e999999", "memory": huge.decode()}


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (None, "object: expected an object, found nothing"),
        ([], "object: expected an object, found a list"),
        ({"spec": {}}, "metadata: expected an object, found nothing"),
        ({"metadata": 5}, "metadata: expected an object, found a number ('5')"),
        ({"metadata": {"annotations": []}}, "metadata.annotations: expected an object, found a list"),
        ({"metadata": {}, "spec": True}, "spec: expected an object, found true or false"),
        ({"metadata": {}, "spec": {"containers": [5]}}, "spec.containers[0]: expected an object, found a number ('5')"),
        ({"metadata": {}, "spec": {"containers": [{}]}}, "spec.containers[0].name: expected text, found nothing"),
        (
            {"metadata": {}, "spec": {"initContainers": [{"name": "i", "resources": "x"}]}},
            "spec.initContainers[0].resources: expected an object, found text ('x')",
        ),
        (
            {"metadata": {}, "spec": {"containers": [{"name": "i", "resources": {"limits": {"cpu": []}}}]}},
            "spec.containers[0].resources.limits['cpu']: expected a quantity, found a list",
        ),
    ],
)
def test_a_pod_that_cannot_be_read_passes_with_a_warning(pod: object, reason: str) -> None:
    """Annotating is help, not a gate."""
    response, result = ask(about(object=pod))
    text = f"interpose: the pod cannot be read: {reason}"
    assert (response, result) == (
        {"uid": "u", "allowed": True, "status": {"message": text}, "warnings": [text]},
        ReviewResult.UNREADABLE,
    )


def test_a_pod_that_cannot_be_read_is_refused_where_that_is_wanted() -> None:
    """With the reason, for whoever made it."""
    response, result = ask(about(object=[]), rules=AnnotationRules(deny=True))
    assert response["allowed"] is False
    assert response["status"]["code"] == 422
    assert "expected an object, found a list" in response["status"]["message"]
    assert result is ReviewResult.UNREADABLE


def test_deny_does_not_concern_what_is_no_pod() -> None:
    """A mistake in the webhook's configuration stops nobody's workload."""
    response, result = ask(
        about(resource={"group": "apps", "version": "v1", "resource": "x"}), rules=AnnotationRules(deny=True)
    )
    assert response["allowed"] is True
    assert result is ReviewResult.SKIPPED


@pytest.mark.parametrize(
    ("resource", "shown"),
    [(None, "nothing"), ("pods", "'pods'"), ([], "something else"), ({"resource": ["x"], "version": "a\nb"}, "?/?")],
)
def test_resources_of_any_form_are_skipped(resource: object, shown: str) -> None:
    """And named, as far as that can be done on one line."""
    response, result = ask(about(resource=resource))
    assert result is ReviewResult.SKIPPED
    assert response["warnings"][0].endswith(f"asked about {shown}")


@pytest.mark.parametrize(
    ("version", "answered"),
    [
        ("admission.k8s.io/v2", "admission.k8s.io/v2"),
        ("v1", "admission.k8s.io/v1"),
        (5, "admission.k8s.io/v1"),
        ("admission.k8s.io/" + "x" * 80, "admission.k8s.io/v1"),
    ],
)
def test_an_unknown_version_gets_an_answer_and_no_patch(version: object, answered: str) -> None:
    """In its own version, if that can be one."""
    asked = {"kind": "AdmissionReview", "apiVersion": version, "request": about()}
    answer = review(json.dumps(asked).encode(), RULES)
    document = json.loads(answer.body)
    assert (document["apiVersion"], document["kind"]) == (answered, "AdmissionReview")
    assert document["response"]["allowed"] is True
    assert "patch" not in document["response"]
    assert answer.result is ReviewResult.UNREADABLE


def test_a_review_of_another_kind_is_not_understood() -> None:
    """The warning says what came."""
    response, result = ask(about(), kind="Pod")
    assert "found 'Pod' of 'admission.k8s.io/v1'" in response["warnings"][0]
    assert result is ReviewResult.UNREADABLE


def test_long_warnings_are_cut() -> None:
    """API servers would do it less nicely; the status has everything."""
    response, _ = ask(about(resource={"group": "g" * 200, "version": "v" * 100, "resource": "r"}))
    long, _ = ask(
        about(
            object={"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {"limits": {"x" * 200: []}}}]}}
        )
    )
    assert len(response["warnings"][0]) <= 240
    assert len(long["warnings"][0]) <= 240


def test_a_very_long_remark_is_cut() -> None:
    """Both quoted parts of the remark are as long as they get."""
    response, _ = ask(about(), kind="k" * 100, apiVersion="v" * 100)
    assert len(response["status"]["message"]) > 240
    assert len(response["warnings"][0]) == 240
    assert response["warnings"][0].endswith("...")


@pytest.mark.parametrize(
    ("request_", "subject"),
    [
        ({"namespace": "shop", "name": "web-1"}, "shop/web-1"),
        ({"namespace": "shop", "object": {"metadata": {"generateName": "web-"}}}, "shop/web-"),
        ({"name": ["x"], "object": {"metadata": []}}, ""),
        ({"object": []}, ""),
    ],
)
def test_the_log_knows_which_pod_it_was(request_: dict[str, Any], subject: str) -> None:
    """By namespace and name, or the beginning of one."""
    asked = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "u", **request_}}
    assert review(json.dumps(asked).encode(), RULES).subject == subject


@pytest.mark.parametrize(("operation", "counted"), [("CREATE", "CREATE"), ("EAT", "other"), ([], "other")])
def test_operations_are_counted_under_known_names(operation: object, counted: str) -> None:
    """Nobody can make up labels."""
    asked = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": about(operation=operation)}
    assert review(json.dumps(asked).encode(), RULES).operation == counted


def test_trials_are_told_apart() -> None:
    """Dry runs are counted by themselves."""
    for value, expected in ((True, True), (False, False), ("true", False)):
        asked = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": about(dryRun=value)}
        assert review(json.dumps(asked).encode(), RULES).dry_run is expected


def test_an_update_of_what_was_not_readable_before_is_put_right() -> None:
    """The new one alone counts."""
    response, result = ask(about(operation="UPDATE", oldObject={**POD, "metadata": 5}))
    assert result is ReviewResult.PATCHED
    assert response["patchType"] == "JSONPatch"


def test_a_pod_that_is_too_large_says_so() -> None:
    """It passes without the annotation, and whoever made it is told."""
    pod = {"metadata": {}, "spec": {"containers": [{"name": f"{number:08}" * 8} for number in range(600)]}}
    response, result = ask(about(object=pod))
    assert result is ReviewResult.UNCHANGED
    assert response["warnings"][0].startswith("interpose: the pod has no annotation intel.com/resources: it would have")
