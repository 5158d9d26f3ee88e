"""A certificate where it belongs, with an API server that is a dictionary."""

import base64
import copy
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from interpose.kube.api import MUTATING_WEBHOOKS, SECRETS, ApiError, Listed, Object, PatchKind, Resource, WatchEvent
from interpose.webhook.bootstrap import Bootstrap, BootstrapError, SecretPlace, Wanted, judge, with_authority
from interpose.webhook.issuing import Issued, examine, issue

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
WANTED = Wanted(names=("hook.ns.svc",), lifetime=timedelta(days=365), renew_before=timedelta(days=30))
CONFIG = "interpose"


class MemoryApi:
    """Objects in a dictionary. `meddle` runs before a write, as somebody else who writes would."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.writes: list[str] = []
        self.conflicts = 0
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
        data = {name: base64.b64decode(text) for name, text in self.objects["secrets", "tls"]["data"].items()}
        return Issued(authority=data["ca.crt"], certificate=data["tls.crt"], key=data["tls.key"])

    @property
    def trusted(self) -> bytes:
        """The authorities of the first webhook."""
        hook = self.objects[MUTATING_WEBHOOKS.plural, CONFIG]["webhooks"][0]
        return base64.b64decode(hook["clientConfig"]["caBundle"])


async def run(api: MemoryApi, wanted: Wanted = WANTED, *, now: datetime = NOW, dry: bool = False) -> list[str]:
    """One run of the command, and what it said."""
    said: list[str] = []
    place = SecretPlace(api, "ns", "tls", force=wanted.force)
    await Bootstrap(place, now=lambda: now, say=said.append, dry=dry).run(wanted, api, CONFIG)
    return said


async def test_first_run_makes_everything() -> None:
    """A Secret of the right type, and a webhook configuration that trusts what is in it; trusted first."""
    api = MemoryApi()
    said = await run(api)
    assert examine(api.secret).names == {"hook.ns.svc"}
    assert api.objects["secrets", "tls"]["type"] == "kubernetes.io/tls"
    assert api.trusted == api.secret.authority
    assert api.writes == [MUTATING_WEBHOOKS.plural, "secrets"]
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
    said = await run(api, now=NOW + timedelta(days=340))
    assert said[0].endswith("it is good until 2027-11-16 only")
    assert api.secret.certificate != old.certificate
    assert api.trusted == api.secret.authority + old.authority


async def test_conflicts_are_tried_again() -> None:
    """Somebody else writes at the same time; after some rounds it is given up."""
    api = MemoryApi()
    api.conflicts = 3
    await run(api)
    assert api.trusted == api.secret.authority
    api.conflicts = 100
    with pytest.raises(ApiError, match="somebody was faster"):
        await run(api, now=NOW + timedelta(days=340))


async def test_secret_of_somebody_else_is_not_replaced() -> None:
    """What is not ours and will not do is for its owner; by force it is ours."""
    api = MemoryApi()
    api.put(SECRETS, "tls", {"data": {"tls.crt": "AAAA", "other": "AAAA"}})
    with pytest.raises(BootstrapError, match="is not ours"):
        await run(api)
    forced = Wanted(names=WANTED.names, lifetime=WANTED.lifetime, renew_before=WANTED.renew_before, force=True)
    await run(api, forced)
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
    assert judge(broken, WANTED, NOW).reason.startswith("ca.crt")
    assert judge(good, WANTED, NOW).reason == "it is not for hook.ns.svc"
    forced = Wanted(names=("other",), lifetime=WANTED.lifetime, renew_before=WANTED.renew_before, force=True)
    assert judge(good, forced, NOW).reason == "a new one was asked for"
