"""A certificate where it belongs, with an API server that is a dictionary."""

import base64
import copy
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from interpose.kube.client.api import (
    MUTATING_WEBHOOKS,
    SECRETS,
    ApiError,
    Listed,
    Object,
    PatchKind,
    Resource,
    WatchEvent,
)
from interpose.kube.webhook.bootstrap import (
    Bootstrap,
    BootstrapError,
    CertificateRequest,
    SecretCertificateStore,
    decide_renewal,
    with_authority,
)
from interpose.kube.webhook.issue import Issued, examine, issue

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
WANTED = CertificateRequest(names=("hook.ns.svc",), lifetime=timedelta(days=365), renew_before=timedelta(days=30))
FORCED = replace(WANTED, force=True)
LATER = NOW + timedelta(days=340)  # time to renew
CONFIG = "interpose"


class MemoryApi:
    """Objects in a dictionary. `meddle` runs before a write, as somebody else who writes would."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.writes: list[str] = []
        self.conflicts = 0
        self.refused: set[str] = set()  # kinds that may not be written
        self._version = 0
        self.put(MUTATING_WEBHOOKS, CONFIG, {"webhooks": [{"name": "a", "clientConfig": {"caBundle": "Cg=="}}]})

    def put(self, resource: Resource, name: str, body: Object) -> Object:
        """Store an object under a new version."""
        self._version += 1
        metadata = {**body.get("metadata", {}), "name": name, "resourceVersion": str(self._version)}
        self.objects[resource.plural, name] = {**body, "metadata": metadata}
        return self.objects[resource.plural, name]

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> Object:
        try:
            return copy.deepcopy(self.objects[resource.plural, name])
        except KeyError:
            raise ApiError(404, "NotFound", f"{resource.plural} {name} not found") from None

    async def create(self, resource: Resource, body: Object, *, namespace: str = "") -> Object:
        self._write(resource)
        return self.put(resource, body["metadata"]["name"], body)

    async def replace(self, resource: Resource, name: str, body: Object, *, namespace: str = "") -> Object:
        self._write(resource)
        current = self.objects[resource.plural, name]
        assert body["metadata"]["resourceVersion"] == current["metadata"]["resourceVersion"]
        return self.put(resource, name, body)

    def _write(self, resource: Resource) -> None:
        if self.conflicts:
            self.conflicts -= 1
            raise ApiError(409, "Conflict", "somebody was faster")
        if resource.plural in self.refused:
            raise ApiError(403, "Forbidden", f"{resource.plural} is forbidden")
        self.writes.append(resource.plural)

    async def list(self, resource: Resource, *, namespace: str = "", name: str = "") -> Listed:
        raise NotImplementedError

    def watch(
        self, resource: Resource, *, version: str, namespace: str = "", name: str = ""
    ) -> AsyncIterator[WatchEvent]:
        raise NotImplementedError

    async def patch(
        self, resource: Resource, name: str, patch: Any, *, kind: PatchKind, namespace: str = "", subresource: str = ""
    ) -> Object:
        raise NotImplementedError

    @property
    def secret(self) -> Issued:
        """What is in the Secret."""
        data = self.data
        return Issued(authority=data["ca.crt"], certificate=data["tls.crt"], key=data["tls.key"])

    @property
    def data(self) -> dict[str, bytes]:
        """All of it."""
        return {name: base64.b64decode(text) for name, text in self.objects["secrets", "tls"]["data"].items()}

    @property
    def trusted(self) -> bytes:
        """The authorities of the first webhook."""
        hook = self.objects[MUTATING_WEBHOOKS.plural, CONFIG]["webhooks"][0]
        return base64.b64decode(hook["clientConfig"]["caBundle"])


async def run(
    api: MemoryApi, wanted: CertificateRequest = WANTED, *, now: datetime = NOW, dry: bool = False
) -> list[str]:
    """One run of the command, and what it said."""
    said: list[str] = []
    place = SecretCertificateStore(api, "ns", "tls", force=wanted.force)
    await Bootstrap(place, now=lambda: now, say=said.append, dry=dry).run(wanted, api, CONFIG)
    return said


async def test_first_run_makes_everything() -> None:
    """A Secret of the right type, and a webhook configuration that trusts what is in it. Nobody serves it before."""
    api = MemoryApi()
    said = await run(api)
    assert examine(api.secret).names == {"hook.ns.svc"}
    assert api.objects["secrets", "tls"]["type"] == "kubernetes.io/tls"
    assert api.trusted == api.secret.authority
    assert api.writes == ["secrets", MUTATING_WEBHOOKS.plural]
    assert said == [
        "Secret ns/tls: a new certificate for hook.ns.svc: there is none yet",
        "MutatingWebhookConfiguration interpose: shall trust it",
    ]


async def test_second_run_changes_nothing() -> None:
    """What is good stays."""
    api = MemoryApi()
    await run(api)
    api.writes.clear()
    said = await run(api)
    assert api.writes == []
    assert said[0] == "Secret ns/tls: the certificate stays: it is good until 2027-11-16"


async def test_bundle_that_somebody_emptied_is_filled_again() -> None:
    """A manifest that was applied again has no authority; the certificate stays."""
    api = MemoryApi()
    await run(api)
    before = api.secret.certificate
    api.put(MUTATING_WEBHOOKS, CONFIG, {"webhooks": [{"name": "a"}]})
    await run(api)
    assert api.trusted == api.secret.authority
    assert api.secret.certificate == before


async def test_renewal_trusts_both_for_a_while() -> None:
    """Shortly before the end there is a new one, and the old one is still trusted."""
    api = MemoryApi()
    await run(api)
    old = api.secret
    api.writes.clear()
    said = await run(api, now=LATER)
    assert said[0].endswith("it is good until 2027-11-16 only")
    assert api.secret.certificate != old.certificate
    assert api.trusted == api.secret.authority + old.authority
    assert api.writes == ["secrets", MUTATING_WEBHOOKS.plural, "secrets"]
    assert sorted(api.data) == ["ca.crt", "tls.crt", "tls.key"]


@pytest.mark.parametrize(("first", "now"), [(True, NOW), (False, LATER)], ids=["first", "renewal"])
async def test_nothing_is_trusted_that_could_not_be_kept(first: bool, now: datetime) -> None:
    """However often it is tried."""
    api = MemoryApi()
    if not first:
        await run(api)
    before = api.trusted
    api.refused = {"secrets"}
    for _ in range(3):
        with pytest.raises(ApiError, match="secrets is forbidden"):
            await run(api, now=now)
    assert api.trusted == before


@pytest.mark.parametrize("wanted", [WANTED, FORCED], ids=["due", "forced"])
async def test_a_renewal_that_was_cut_short_goes_on_with_the_same_certificate(wanted: CertificateRequest) -> None:
    """The one in use stays until the new one is trusted, and of many tries one authority is left."""
    api = MemoryApi()
    await run(api)
    old = api.secret
    api.refused = {MUTATING_WEBHOOKS.plural}
    for _ in range(3):
        with pytest.raises(ApiError, match="is forbidden"):
            await run(api, wanted, now=LATER)
    assert api.secret == old
    begun = api.data["next-tls.crt"]
    api.refused.clear()
    said = await run(api, wanted, now=LATER)
    assert "the new certificate for hook.ns.svc that an earlier run has made" in said[0]
    assert api.secret.certificate == begun
    assert api.trusted == api.secret.authority + old.authority


async def test_first_issue_that_was_cut_short_is_trusted_later() -> None:
    """The Secret was made, the configuration could not be changed."""
    api = MemoryApi()
    api.refused = {MUTATING_WEBHOOKS.plural}
    with pytest.raises(ApiError, match="is forbidden"):
        await run(api)
    made = api.secret
    api.refused.clear()
    await run(api)
    assert (api.secret, api.trusted) == (made, made.authority)


@pytest.mark.parametrize("first", [True, False])
async def test_force_makes_one_and_not_one_for_each_conflict(first: bool) -> None:
    """What this run has made is what was asked for."""
    api = MemoryApi()
    if not first:
        await run(api)
    trusted = api.trusted.count(b"BEGIN")
    original = api.replace
    left = 2

    async def replace_late(resource: Resource, name: str, body: Object, *, namespace: str = "") -> Object:
        nonlocal left
        if resource is MUTATING_WEBHOOKS and left:
            left -= 1
            raise ApiError(409, "Conflict", "somebody was faster")
        return await original(resource, name, body, namespace=namespace)

    api.replace = replace_late  # type: ignore[method-assign]
    await run(api, FORCED)
    assert api.trusted.count(b"BEGIN") == trusted + 1
    assert api.secret.authority in api.trusted


async def test_conflicts_are_tried_again() -> None:
    """Somebody else writes at the same time; after some rounds it is given up."""
    api = MemoryApi()
    api.conflicts = 3
    await run(api)
    assert api.trusted == api.secret.authority
    api.conflicts = 100
    with pytest.raises(ApiError, match="somebody was faster"):
        await run(api, now=LATER)


async def test_secret_of_somebody_else_is_not_replaced() -> None:
    """What is not ours and will not do is for its owner; by force it is ours."""
    api = MemoryApi()
    api.put(SECRETS, "tls", {"data": {"tls.crt": "AAAA", "other": "AAAA"}})
    with pytest.raises(BootstrapError, match="is not ours"):
        await run(api)
    assert api.writes == []  # above all nobody trusts anything yet
    await run(api, FORCED)
    assert api.objects["secrets", "tls"]["data"]["other"] == "AAAA"


async def test_good_secret_of_somebody_else_is_used() -> None:
    """Then only the configuration is ours to change."""
    api = MemoryApi()
    issued = issue(WANTED.names, WANTED.lifetime, NOW)
    parts = {"ca.crt": issued.authority, "tls.crt": issued.certificate, "tls.key": issued.key}
    api.put(SECRETS, "tls", {"data": {name: base64.b64encode(pem).decode() for name, pem in parts.items()}})
    await run(api)
    assert api.writes == [MUTATING_WEBHOOKS.plural]
    assert api.trusted == issued.authority


async def test_dry_run_writes_nothing() -> None:
    """It says the same and does nothing."""
    api = MemoryApi()
    said = await run(api, dry=True)
    assert len(said) == 2
    assert api.writes == []


async def test_other_errors_come_through() -> None:
    """Neither a missing configuration nor one without webhooks is passed over."""
    api = MemoryApi()
    del api.objects[MUTATING_WEBHOOKS.plural, CONFIG]
    with pytest.raises(ApiError, match="not found"):
        await run(api)
    with pytest.raises(BootstrapError, match="has no webhooks"):
        with_authority({"metadata": {"name": "x"}}, b"", NOW)


def test_why_a_certificate_will_not_do() -> None:
    """Broken, for other names, or asked for anew."""
    good = issue(("other",), WANTED.lifetime, NOW)
    broken = Issued(authority=b"", certificate=b"", key=b"")
    assert decide_renewal(broken, WANTED, NOW).reason.startswith("ca.crt")
    assert decide_renewal(good, WANTED, NOW).reason == "it is not for hook.ns.svc"
    assert decide_renewal(good, replace(FORCED, names=("other",)), NOW).reason == "a new one was asked for"
