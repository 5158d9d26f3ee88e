"""An AdmissionReview in, its answer out: admission.k8s.io v1, and v1beta1 as older API servers speak it.

Annotating is help, not a gate: a pod that cannot be read is let through with a warning, unless `deny` says otherwise;
so is whatever is no pod at all, which the webhook's configuration should not send here: refusing it would stop
workloads because of a mistake in a manifest. Only what has no uid cannot be answered and is a BadReviewError.

Pure, and total: any bytes give an answer or a BadReviewError.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from interpose.core.model.text import quoted
from interpose.kube.webhook.annotate import KNOWN_KEYS, JsonNumber, Patch, UnreadableError, patch_for, same_for_us

GROUP: Final = "admission.k8s.io"
KIND: Final = "AdmissionReview"
V1: Final = f"{GROUP}/v1"
V1BETA1: Final = f"{GROUP}/v1beta1"
OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE", "CONNECT")
OTHER: Final = "other"

_PODS: Final = {"group": "", "version": "v1", "resource": "pods"}
# What may bring resources with it; a resize changes those of a running pod. API servers may keep nothing else of a
# resize: then the annotation follows with the next update.
_SUBRESOURCES: Final = ("", "resize")
# Values in a body, numbers and texts and all: what taking it apart costs, in time and memory, goes by these and not by
# bytes. 100 000 of the worst take 35 MB and a tenth of a second; pods have some hundred, with all their history.
MAX_VALUES: Final = 100_000
_MAX_UID: Final = 253  # characters; API servers send 36
_MAX_WARNING: Final = 240  # API servers cut off what is beyond 256


class BadReviewError(ValueError):
    """There is nobody to answer: no JSON, no request in it, or no uid."""


class TooMuchError(BadReviewError):
    """More than any pod has, not even looked at."""


class ReviewResult(StrEnum):
    """What became of a request."""

    PATCHED = "patched"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"  # nothing for us
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationRules:
    """How pods are annotated."""

    keys: tuple[str, ...] = KNOWN_KEYS[:1]
    deny: bool = False  # refuse pods that cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewAnswer:
    """The response, and what metrics and the log want to know. `subject` is the pod, as far as it has a name."""

    body: bytes
    result: ReviewResult
    operation: str
    dry_run: bool
    uid: str
    subject: str
    remark: str  # why nothing was done, or what is missing


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    result: ReviewResult
    allowed: bool = True
    operations: tuple[Mapping[str, Any], ...] = ()
    remark: str = ""


def review(body: bytes, rules: AnnotationRules) -> ReviewAnswer:
    """The answer to the body of an AdmissionReview; BadReviewError if it has no uid."""
    document = _read(body)
    request = document.get("request")
    if not isinstance(request, dict):
        raise BadReviewError("the body is not an AdmissionReview: it has no request")
    uid = request.get("uid")
    if type(uid) is not str or not 0 < len(uid) <= _MAX_UID:
        raise BadReviewError("the request has no uid")
    version = document.get("apiVersion")
    if document.get("kind") != KIND or version not in (V1, V1BETA1):
        what = f"{_describe(document.get('kind'))} of {_describe(version)}"
        remark = f"expected {KIND} of {V1} or {V1BETA1}, found {what}"
        decision = _unreadable(remark, rules)
    else:
        decision = _decide(request, rules)
    operation = request.get("operation")
    return ReviewAnswer(
        body=_response(_answer_version(version), uid, decision),
        result=decision.result,
        operation=operation if operation in OPERATIONS else OTHER,
        dry_run=request.get("dryRun") is True,
        uid=uid,
        subject=_subject(request),
        remark=decision.remark,
    )


def _read(body: bytes) -> dict[str, Any]:
    # One stands before each value but the first. Those in texts count too, which does no harm.
    if (values := sum(map(body.count, (b",", b"[", b"{")))) > MAX_VALUES:
        raise TooMuchError(f"the body has {values} values, more than the {MAX_VALUES} that are read")

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not a number")

    try:
        document = json.loads(body.decode(), parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=refuse)
    except RecursionError:
        raise BadReviewError("the body is nested too deeply") from None
    except ValueError as error:
        raise BadReviewError(f"the body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadReviewError("the body is not an AdmissionReview: it is not an object")
    return document


def _decide(request: Mapping[str, Any], rules: AnnotationRules) -> _Decision:
    resource = request.get("resource")
    if not isinstance(resource, dict) or any((resource.get(key) or "") != value for key, value in _PODS.items()):
        remark = f"only pods are annotated, this webhook should not be asked about {_resource(resource)}"
        return _Decision(result=ReviewResult.SKIPPED, remark=remark)
    operation = request.get("operation")
    if operation not in ("CREATE", "UPDATE") or (request.get("subResource") or "") not in _SUBRESOURCES:
        return _Decision(result=ReviewResult.SKIPPED)
    pod = request.get("object")
    try:
        if pod is None:
            raise UnreadableError("object: expected an object, found nothing")
        if operation == "UPDATE" and _untouched(pod, request.get("oldObject"), rules):
            return _Decision(result=ReviewResult.UNCHANGED)
        patch = patch_for(pod, rules.keys)
    except UnreadableError as error:
        return _unreadable(f"the pod cannot be read: {error}", rules)
    return _Decision(
        result=ReviewResult.PATCHED if patch.operations else ReviewResult.UNCHANGED,
        operations=patch.operations,
        remark=_patch_remark(patch, rules),
    )


def _untouched(pod: object, before: object, rules: AnnotationRules) -> bool:
    """Whether an update is about something else: pods older than the webhook are then left as they are."""
    try:
        return before is not None and same_for_us(pod, before, rules.keys)
    except UnreadableError:
        return False  # the new one alone counts


def _patch_remark(patch: Patch, rules: AnnotationRules) -> str:
    return f"the pod has no annotation {rules.keys[0]}: {patch.left_out}" if patch.left_out else ""


def _unreadable(remark: str, rules: AnnotationRules) -> _Decision:
    return _Decision(result=ReviewResult.UNREADABLE, allowed=not rules.deny, remark=remark)


def _response(version: str, uid: str, decision: _Decision) -> bytes:
    response: dict[str, Any] = {"uid": uid, "allowed": decision.allowed}
    if decision.operations:
        patch = json.dumps(decision.operations, separators=(",", ":"))
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(patch.encode()).decode()}
    if decision.remark:
        text = f"interpose: {decision.remark}"
        response["status"] = {"message": text} if decision.allowed else {"message": text, "code": 422}
        if version != V1BETA1:  # older ones know no warnings
            response["warnings"] = [text if len(text) <= _MAX_WARNING else text[: _MAX_WARNING - 3] + "..."]
    return json.dumps({"apiVersion": version, "kind": KIND, "response": response}, separators=(",", ":")).encode()


def _answer_version(version: object) -> str:
    """The version of the answer: that of the question, if it can be one."""
    known = type(version) is str and version.startswith(f"{GROUP}/") and len(version) <= 64
    return str(version) if known else V1


def _resource(resource: object) -> str:
    if not isinstance(resource, dict):
        return _describe(resource)
    parts = [resource.get(key) for key in _PODS]
    return "/".join(str(part) if isinstance(part, str) and part.isprintable() else "?" for part in parts if part)[:80]


def _subject(request: Mapping[str, Any]) -> str:
    """Namespace and name, for the log; a pod that gets its name later has the beginning of one."""
    name = request.get("name")
    if not name and isinstance(pod := request.get("object"), dict) and isinstance(pod.get("metadata"), dict):
        name = pod["metadata"].get("name") or pod["metadata"].get("generateName")
    return "/".join(str(part)[:253] for part in (request.get("namespace"), name) if isinstance(part, str) and part)


def _describe(value: object) -> str:
    return quoted(value) if isinstance(value, str) else "nothing" if value is None else "something else"
