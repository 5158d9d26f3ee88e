"""Which webhooks are asked, and what becomes of their answers."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from interpose.kube.client.api import MUTATING_WEBHOOKS
from tests.support.apiserver.admission import Admitter, CallFailedError, timeout_of
from tests.support.apiserver.paths import find_target
from tests.support.apiserver.problems import RefusedError
from tests.support.apiserver.resources import NAMESPACES
from tests.support.apiserver.store import Store

_PODS = "/api/v1/namespaces/default/pods"
_POD = {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {}}
_RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


class _Webhook:
    """Answers what it is told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.reviews: list[Mapping[str, Any]] = []
        self.response: dict[str, Any] = {"allowed": True}
        self.review: dict[str, Any] = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        self.broken = False

    async def call(self, webhook: Mapping[str, Any], review: Mapping[str, Any]) -> Any:
        """As an API server does."""
        self.reviews.append(review)
        if self.broken:
            raise CallFailedError("no route to host")
        return {**self.review, "response": {"uid": review["request"]["uid"], **self.response}}


@pytest.fixture
def webhook() -> _Webhook:
    """One that allows everything."""
    return _Webhook()


@pytest.fixture
def configure(store: Store) -> Callable[..., None]:
    """Puts a configuration with one webhook into the store."""

    def put(**changes: Any) -> None:
        entry = {"name": "w.example.org", "rules": [_RULE], "clientConfig": {"url": "https://w"}, **changes}
        store.put(MUTATING_WEBHOOKS, {"metadata": {"name": "w"}, "webhooks": [entry]})

    return put


@pytest.fixture
def admitter(store: Store, webhook: _Webhook, new_uid: Callable[[], str]) -> Admitter:
    """Asks the one webhook."""
    return Admitter(store, webhook.call, new_uid)


async def _create(admitter: Admitter, path: str = _PODS, *, dry_run: bool = False) -> Any:
    return await admitter.admit("CREATE", find_target("POST", path, {}), "me", _POD, None, dry_run)


def _patch(*operations: dict[str, Any]) -> dict[str, Any]:
    encoded = b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


async def test_the_review_tells_everything(
    admitter: Admitter, webhook: _Webhook, configure: Callable[..., None]
) -> None:
    """Who wants what, where, and whether it is only tried."""
    configure()
    assert await _create(admitter, dry_run=True) == _POD
    request = webhook.reviews[0]["request"]
    assert (webhook.reviews[0]["apiVersion"], request["operation"]) == ("admission.k8s.io/v1", "CREATE")
    assert (request["name"], request["namespace"], request["dryRun"]) == ("p", "default", True)
    assert (request["kind"]["kind"], request["resource"]["resource"]) == ("Pod", "pods")
    assert request["userInfo"]["username"] == "me"
    assert (request["object"]["kind"], request["object"]["spec"], request["oldObject"]) == ("Pod", {}, None)


async def test_a_patch_is_applied(admitter: Admitter, webhook: _Webhook, configure: Callable[..., None]) -> None:
    """To what is stored; what came in stays as it was."""
    configure()
    webhook.response = _patch({"op": "add", "path": "/metadata/annotations", "value": {"x": "y"}})
    admitted = await _create(admitter)
    assert admitted["metadata"]["annotations"] == {"x": "y"}
    assert "annotations" not in _POD["metadata"]


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({}, True),
        ({"rules": [{**_RULE, "operations": ["UPDATE"]}]}, False),
        ({"rules": [{**_RULE, "operations": ["*"], "resources": ["*/*"], "apiGroups": ["*"]}]}, True),
        ({"rules": [{**_RULE, "resources": ["services"]}]}, False),
        ({"rules": [{**_RULE, "apiGroups": ["apps"]}]}, False),
        ({"rules": [{**_RULE, "apiVersions": ["v2"]}]}, False),
        ({"rules": [{**_RULE, "scope": "Cluster"}]}, False),
        ({"rules": [{**_RULE, "scope": "Namespaced"}]}, True),
        ({"rules": []}, False),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, True),
        ({"objectSelector": {"matchLabels": {"a": "c"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}, False),
    ],
)
async def test_who_is_asked(
    admitter: Admitter, webhook: _Webhook, configure: Callable[..., None], changes: dict[str, Any], asked: bool
) -> None:
    """By rules and selectors."""
    configure(**changes)
    await _create(admitter)
    assert bool(webhook.reviews) is asked


async def test_an_object_that_had_the_label(
    admitter: Admitter, webhook: _Webhook, configure: Callable[..., None]
) -> None:
    """Is still shown when it loses it."""
    configure(objectSelector={"matchLabels": {"x": "y"}}, rules=[{**_RULE, "operations": ["UPDATE"]}])
    old = {"metadata": {"name": "p", "labels": {"x": "y"}}}
    await admitter.admit("UPDATE", find_target("PUT", f"{_PODS}/p", {}), "me", _POD, old, False)
    assert webhook.reviews[0]["request"]["oldObject"] == old


@pytest.mark.parametrize(("method", "path"), [("POST", "/api/v1/nodes"), ("PUT", f"{_PODS}/p/status")])
async def test_what_nobody_is_asked_about(
    admitter: Admitter, webhook: _Webhook, configure: Callable[..., None], method: str, path: str
) -> None:
    """Only pods themselves."""
    configure(rules=[{**_RULE, "resources": ["*/*"], "operations": ["*"]}])
    await admitter.admit("UPDATE", find_target(method, path, {}), "me", _POD, None, False)
    assert webhook.reviews == []


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        ({"code": 403, "message": "not today"}, 403, 'admission webhook "w.example.org" denied the request: not today'),
        (None, 400, 'admission webhook "w.example.org" denied the request without explanation'),
    ],
)
async def test_a_denial(
    admitter: Admitter, webhook: _Webhook, configure: Callable[..., None], status: Any, code: int, text: str
) -> None:
    """Reaches the client with its reason."""
    configure(failurePolicy="Ignore")
    webhook.response = {"allowed": False, "status": status}
    with pytest.raises(RefusedError) as caught:
        await _create(admitter)
    assert (caught.value.code, caught.value.message) == (code, text)


@pytest.mark.parametrize(
    "change",
    [
        {"broken": True},
        {"review": {"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}},
        {"response": {"allowed": True, "uid": "other"}},
        {"response": {"allowed": True, "patch": "W10="}},
        {"response": {"allowed": True, "patchType": "JSONPatch"}},
        {"response": {**_patch(), "patch": "no base64!"}},
        {"response": _patch({"op": "remove", "path": "/none"})},
        {"response": _patch({"op": "replace", "path": "", "value": 1})},
    ],
    ids=["broken", "other version", "other uid", "no type", "no patch", "no base64", "no fit", "no object"],
)
async def test_a_webhook_that_fails(
    admitter: Admitter, webhook: _Webhook, configure: Callable[..., None], change: dict[str, Any]
) -> None:
    """Its failurePolicy decides: Ignore goes on, Fail, the default, refuses."""
    for name, value in change.items():
        setattr(webhook, name, value)
    configure(failurePolicy="Ignore")
    assert await _create(admitter) == _POD
    configure()
    with pytest.raises(RefusedError) as caught:
        await _create(admitter)
    assert (caught.value.code, "failed calling webhook" in caught.value.message) == (500, True)


@pytest.mark.parametrize("answer", [None, [], {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}])
async def test_an_answer_that_is_no_review(
    store: Store, configure: Callable[..., None], new_uid: Callable[[], str], answer: Any
) -> None:
    """Is a failure too."""

    async def call(_webhook: Mapping[str, Any], _review: Mapping[str, Any]) -> Any:
        return answer

    configure()
    with pytest.raises(RefusedError, match="failed calling webhook"):
        await _create(Admitter(store, call, new_uid))


async def test_a_namespace_that_is_not_there(admitter: Admitter, store: Store, configure: Callable[..., None]) -> None:
    """Is told before any webhook is asked."""
    configure()
    store.remove(NAMESPACES, "default")
    with pytest.raises(RefusedError, match='namespaces "default" not found'):
        await _create(admitter)


@pytest.mark.parametrize(
    ("webhook_says", "seconds"), [({}, 10), ({"timeoutSeconds": 3}, 3), ({"timeoutSeconds": 99}, 30)]
)
def test_the_time_a_webhook_has(webhook_says: dict[str, int], seconds: int) -> None:
    """Ten seconds unless it says something, thirty at most."""
    assert timeout_of(webhook_says) == seconds
