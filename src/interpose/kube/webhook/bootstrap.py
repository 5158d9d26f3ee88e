"""A certificate for the webhook where it belongs: in a Secret or a directory, and its authority in the webhook's
configuration.

Whatever is good already stays as it is, so this may run again and again. A renewal has three steps, and a run that ends
between two of them is continued by the next one, with the same certificate: it is put beside the one in use, its
authority becomes trusted, it takes the place of the one in use. (The first one of all has no other beside it and nobody
to disturb: it is written, then trusted.)

Invariants: API servers trust a certificate before it replaces another, and go on trusting that until it has expired;
no authority becomes trusted whose certificate could not be kept.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from interpose.kube.client.api import MUTATING_WEBHOOKS, SECRETS, Api, ApiError, Object
from interpose.kube.webhook.issue import Issued, bundle, examine, issue

AUTHORITY: Final = "ca.crt"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
# Before the names of what is not in use yet.
_NEXT: Final = "next-"
_OWNER: Final = ("app.kubernetes.io/managed-by", "interpose")
# Somebody else changes the same object: read it again, and again.
_ROUNDS: Final = 5


class BootstrapError(Exception):
    """It cannot be done; the text says why and what would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRequest:
    """What the certificate shall be."""

    names: tuple[str, ...]
    lifetime: timedelta
    renew_before: timedelta
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCertificate:
    """The certificates that a store holds."""

    current: Issued | None = None  # in use; None unless it is complete
    pending: Issued | None = None  # beside it, from a run that has not come to its end
    empty: bool = False  # nothing at all is there, so nobody uses it
    obstacle: str = ""  # why it may not be replaced


class CertificateStore(Protocol):
    """Where key and certificate are kept."""

    @property
    def title(self) -> str:
        """Kind and name of the store, for messages."""

    async def read(self) -> StoredCertificate:
        """The certificates that the store holds."""

    async def stage(self, issued: Issued) -> None:
        """Keep it beside what is in use."""

    async def write(self, issued: Issued) -> None:
        """Put it in use; nothing is beside it then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewalDecision:
    """What is to be done about a certificate, and why."""

    keep: Issued | None
    reason: str


def decide_renewal(found: Issued | None, wanted: CertificateRequest, now: datetime) -> RenewalDecision:
    """Whether the present certificate can be kept."""
    if found is None:
        return RenewalDecision(keep=None, reason="there is none yet")
    try:
        facts = examine(found)
    except ValueError as error:
        return RenewalDecision(keep=None, reason=str(error))
    if wanted.force:
        return RenewalDecision(keep=None, reason="a new one was asked for")
    if missing := facts.missing(wanted.names):
        return RenewalDecision(keep=None, reason=f"it is not for {', '.join(missing)}")
    until = f"{facts.not_after:%Y-%m-%d}"
    if facts.not_after - now <= wanted.renew_before:
        return RenewalDecision(keep=None, reason=f"it is good until {until} only")
    return RenewalDecision(keep=found, reason=f"it is good until {until}")


class Bootstrap:
    """Issues and installs a certificate. `say` is called with a text for each step; with `dry` nothing is changed."""

    def __init__(
        self, store: CertificateStore, *, now: Callable[[], datetime], say: Callable[[str], None], dry: bool = False
    ) -> None:
        self._store = store
        self._now = now
        self._say = say
        self._dry = dry
        self._made: Issued | None = None  # by this run

    async def run(self, wanted: CertificateRequest, api: Api | None = None, configuration: str = "") -> None:
        """Certificate and, if a webhook configuration is named, the authorities that it trusts."""
        for left in reversed(range(_ROUNDS)):
            try:
                await self._run_once(wanted, api, configuration)
                return
            except ApiError as error:
                if error.code != 409 or not left:
                    raise

    async def _run_once(self, wanted: CertificateRequest, api: Api | None, configuration: str) -> None:
        found = await self._store.read()
        if found.current is not None and found.current == self._made:
            wanted = replace(wanted, force=False)  # it is the new one that was asked for
        # Before anything is written: without it nothing would come of the rest.
        trust = _Trust(api, await api.get(MUTATING_WEBHOOKS, configuration)) if api and configuration else None
        decision = decide_renewal(found.current, wanted, self._now())
        if decision.keep is not None:
            self._say(f"{self._store.title}: the certificate stays: {decision.reason}")
            await self._ensure(trust, decision.keep)
            return
        if found.obstacle:
            raise BootstrapError(f"{self._store.title}: needs a certificate ({decision.reason}), and {found.obstacle}")
        issued = decide_renewal(found.pending, replace(wanted, force=False), self._now()).keep
        begun = issued is not None
        self._say(
            f"{self._store.title}: {'the' if begun else 'a'} new certificate for {', '.join(wanted.names)}"
            f"{' that an earlier run has made' if begun else ''}: {decision.reason}"
        )
        if issued is None:
            issued = issue(wanted.names, wanted.lifetime, self._now())
        self._made = issued
        if found.empty or trust is None:
            await self._do(self._store.write, issued)
            await self._ensure(trust, issued)
            return
        if not begun:
            await self._do(self._store.stage, issued)
        await self._ensure(trust, issued)
        await self._do(self._store.write, issued)

    async def _do(self, step: Callable[[Issued], Awaitable[None]], issued: Issued) -> None:
        if not self._dry:
            await step(issued)

    async def _ensure(self, trust: "_Trust | None", issued: Issued) -> None:
        if trust is None:
            return
        changed = with_authority(trust.found, issued.authority, self._now())
        what = f"{MUTATING_WEBHOOKS.kind} {_name_of(trust.found)}"
        if changed is None:
            self._say(f"{what}: trusts it already")
            return
        self._say(f"{what}: shall trust it")
        if not self._dry:
            await trust.api.replace(MUTATING_WEBHOOKS, _name_of(trust.found), changed)


@dataclass(frozen=True, slots=True)
class _Trust:
    api: Api
    found: Object  # the configuration, as it was read


def with_authority(found: Object, authority: bytes, now: datetime) -> dict[str, Any] | None:
    """The configuration with this authority in each of its webhooks; None if it is as it should be."""
    webhooks = []
    for webhook in found.get("webhooks") or []:
        client = webhook.get("clientConfig") or {}
        trusted = bundle(_decoded(client.get("caBundle")), authority, now)
        webhooks.append({**webhook, "clientConfig": {**client, "caBundle": _encoded(trusted)}})
    if not webhooks:
        raise BootstrapError(f"{MUTATING_WEBHOOKS.kind} {_name_of(found)}: has no webhooks")
    return None if webhooks == found["webhooks"] else {**found, "webhooks": webhooks}


class SecretCertificateStore:
    """A Secret of the type kubernetes.io/tls."""

    def __init__(self, api: Api, namespace: str, name: str, *, force: bool = False) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._force = force
        self._found: Object | None = None

    @property
    def title(self) -> str:
        """Kind and name of the Secret, for messages."""
        return f"Secret {self._namespace}/{self._name}"

    async def read(self) -> StoredCertificate:
        """What is in it. Somebody else's that cannot be used is for them to mend."""
        try:
            self._found = await self._api.get(SECRETS, self._name, namespace=self._namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            self._found = None
            return StoredCertificate(empty=True)
        data = self._found.get("data") or {}
        label, owner = _OWNER
        ours = (self._found["metadata"].get("labels") or {}).get(label) == owner
        return StoredCertificate(
            current=_issued(data, ""),
            pending=_issued(data, _NEXT),
            obstacle=""
            if ours or self._force
            else f"is not ours (label {label} is not {owner}): let its owner renew it, or use --force",
        )

    async def stage(self, issued: Issued) -> None:
        """Beside the others, under names of its own."""
        await self._put(_entries(issued, _NEXT))

    async def write(self, issued: Issued) -> None:
        """Create it, or replace its data; what others put beside it stays."""
        await self._put(_entries(issued, ""), without=frozenset(_entries(issued, _NEXT)))

    async def _put(self, entries: Mapping[str, str], without: Collection[str] = ()) -> None:
        if self._found is None:
            self._found = await self._api.create(SECRETS, self._fresh(entries), namespace=self._namespace)
            return
        kept = {name: text for name, text in (self._found.get("data") or {}).items() if name not in without}
        body = {**self._found, "data": {**kept, **entries}}
        self._found = await self._api.replace(SECRETS, self._name, body, namespace=self._namespace)

    def _fresh(self, data: Mapping[str, str]) -> dict[str, Any]:
        label, owner = _OWNER
        return {
            "apiVersion": SECRETS.api_version,
            "kind": SECRETS.kind,
            "metadata": {"name": self._name, "namespace": self._namespace, "labels": {label: owner}},
            "type": "kubernetes.io/tls",
            "data": data,
        }


def _issued(data: Mapping[str, object], prefix: str) -> Issued | None:
    authority, certificate, key = (_decoded(data.get(prefix + name)) for name in (AUTHORITY, CERTIFICATE, KEY))
    if not authority or not certificate or not key:
        return None
    return Issued(authority=authority, certificate=certificate, key=key)


def _entries(issued: Issued, prefix: str) -> dict[str, str]:
    parts = {AUTHORITY: issued.authority, CERTIFICATE: issued.certificate, KEY: issued.key}
    return {prefix + name: _encoded(pem) for name, pem in parts.items()}


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except binascii.Error:
        return b""


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _name_of(found: Object) -> str:
    return str((found.get("metadata") or {}).get("name", ""))
