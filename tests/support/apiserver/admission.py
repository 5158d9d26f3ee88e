"""Mutating admission: which webhooks are asked about an object, and what becomes of their answers. Pure but for asking.

The caller is given, so that this can be tested without a network; `webhookcaller` has the real one.
"""

import json
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from interpose.kube.client.api import MUTATING_WEBHOOKS, Object
from tests.support.apiserver.patch.json_patch import apply_json_patch
from tests.support.apiserver.paths import Target
from tests.support.apiserver.problems import RefusedError
from tests.support.apiserver.resources import NAMESPACES, PODS
from tests.support.apiserver.selectors import selector_test
from tests.support.apiserver.store import Store

# A webhook of a MutatingWebhookConfiguration and the review for it; its answer. Raises CallFailedError.
Caller: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], Awaitable[Any]]

_ADMITTED: Final = (PODS,)  # other kinds are stored as they come
_MOST_SECONDS = 30


class CallFailedError(Exception):
    """A webhook could not be asked, or its answer is none: its failurePolicy decides."""


class Admitter:
    """Asks the webhooks that a store has configurations for."""

    def __init__(self, store: Store, call: Caller, new_uid: Callable[[], str]) -> None:
        self._store = store
        self._call = call
        self._new_uid = new_uid

    async def admit(
        self, operation: str, target: Target, user: str, given: Object, old: Object | None, dry_run: bool
    ) -> Object:
        """The object as the webhooks want it; RefusedError if one of them denies it or fails and must not."""
        if target.kind.resource not in _ADMITTED or target.subresource:
            return given
        for webhook in self._matching(operation, target, given, old):
            review = self._review(operation, target, user, given, old, dry_run)
            try:
                answer = _response(await self._call(webhook, review), review["request"]["uid"])
                patched = _patched(given, answer)
            except CallFailedError as error:
                if webhook.get("failurePolicy", "Fail") == "Ignore":
                    continue
                raise _failed(webhook, str(error)) from None
            if not answer.get("allowed"):
                raise _denied(webhook, answer)
            given = patched
        return given

    def _matching(
        self, operation: str, target: Target, given: Object, old: Object | None
    ) -> Iterator[Mapping[str, Any]]:
        namespace = self._store.get(NAMESPACES, target.namespace)
        for configuration in self._store.list(MUTATING_WEBHOOKS):
            for webhook in configuration.get("webhooks") or []:
                objects = selector_test(webhook.get("objectSelector"))
                if (
                    any(_rule_matches(rule, operation, target) for rule in webhook.get("rules") or [])
                    and selector_test(webhook.get("namespaceSelector"))(namespace)
                    and (objects(given) or (old is not None and objects(old)))
                ):
                    yield webhook

    def _review(
        self, operation: str, target: Target, user: str, given: Object, old: Object | None, dry_run: bool
    ) -> dict[str, Any]:
        resource = target.kind.resource
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        place = {"group": resource.group, "version": resource.version, "resource": resource.plural}
        request = {
            "uid": self._new_uid(),
            "kind": kind,
            "resource": place,
            "requestKind": kind,
            "requestResource": place,
            "name": (given.get("metadata") or {}).get("name", ""),
            "namespace": target.namespace,
            "operation": operation,
            "userInfo": {"username": user, "groups": ["system:authenticated"]},
            "object": {"kind": resource.kind, "apiVersion": resource.api_version, **given},
            "oldObject": old,
            "dryRun": dry_run,
            "options": {"kind": f"{operation.title()}Options", "apiVersion": "meta.k8s.io/v1"},
        }
        return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def timeout_of(webhook: Mapping[str, Any]) -> int:
    """Seconds that a webhook has."""
    return min(int(webhook.get("timeoutSeconds") or 10), _MOST_SECONDS)


def _rule_matches(rule: Mapping[str, Any], operation: str, target: Target) -> bool:
    resource = target.kind.resource
    scope = rule.get("scope") or "*"
    return (
        _has(rule.get("operations"), operation)
        and _has(rule.get("apiGroups"), resource.group)
        and _has(rule.get("apiVersions"), resource.version)
        and (_has(rule.get("resources"), resource.plural) or "*/*" in rule.get("resources", ()))
        and scope in ("*", "Namespaced" if resource.namespaced else "Cluster")
    )


def _has(words: Any, word: str) -> bool:
    return "*" in (words or ()) or word in (words or ())


def _response(review: Any, uid: str) -> Mapping[str, Any]:
    """Of the version that was asked in, about what was asked."""
    if not isinstance(review, Mapping):
        raise CallFailedError("expected webhook response of an AdmissionReview")
    said = (review.get("apiVersion"), review.get("kind"))
    if said != ("admission.k8s.io/v1", "AdmissionReview"):
        raise CallFailedError(f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {said}")
    response = review.get("response")
    if not isinstance(response, Mapping):
        raise CallFailedError("webhook response was absent")
    if response.get("uid") != uid:
        raise CallFailedError(f"expected response.uid={uid!r}, got {response.get('uid')!r}")
    if response.get("patch") and response.get("patchType") != "JSONPatch":
        raise CallFailedError(f"webhook returned response.patch but response.patchType {response.get('patchType')!r}")
    if response.get("patchType") and not response.get("patch"):
        raise CallFailedError("webhook returned response.patchType but not response.patch")
    return response


def _patched(given: Object, response: Mapping[str, Any]) -> Object:
    if not response.get("allowed") or not response.get("patch"):
        return given
    try:
        patched = apply_json_patch(dict(given), json.loads(b64decode(response["patch"], validate=True)))
    except (Base64Error, ValueError, TypeError, RefusedError) as error:
        raise CallFailedError(f"the patch cannot be applied: {error}") from None
    if not isinstance(patched, Mapping):
        raise CallFailedError("the patch leaves no object")
    return patched


def _denied(webhook: Mapping[str, Any], response: Mapping[str, Any]) -> RefusedError:
    status = response.get("status") or {}
    code = int(status.get("code") or 400)
    why = status.get("message") or status.get("reason") or "without explanation"
    joint = " denied the request: " if status.get("message") or status.get("reason") else " denied the request "
    return RefusedError(code, status.get("reason") or "", f'admission webhook "{webhook["name"]}"{joint}{why}')


def _failed(webhook: Mapping[str, Any], why: str) -> RefusedError:
    message = f'Internal error occurred: failed calling webhook "{webhook["name"]}": {why}'
    return RefusedError(
        500, "InternalError", message, {"causes": [{"message": f'failed calling webhook "{webhook["name"]}"'}]}
    )
