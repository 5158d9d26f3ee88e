"""A certificate for the webhook where it belongs: in a Secret or a directory, and its authority in the webhook's
configuration.

Whatever is good already stays as it is, so this may run again and again. Invariant: an API server trusts a certificate
before any webhook can have it, and goes on trusting the one before until that has expired.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from interpose.kube.api import MUTATING_WEBHOOKS, SECRETS, Api, ApiError, Object
from interpose.webhook.issuing import Issued, bundle, examine, issue

AUTHORITY: Final = "ca.crt"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
_OWNER: Final = ("app.kubernetes.io/managed-by", "interpose")
# Somebody else changes the same object: read it again, and again.
_ROUNDS: Final = 5


class BootstrapError(Exception):
    """It cannot be done; the text says why and what would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the certificate shall be."""

    names: tuple[str, ...]
    lifetime: timedelta
    renew_before: timedelta
    force: bool = False


class Place(Protocol):
    """Where key and certificate are kept."""

    @property
    def title(self) -> str:
        """For people."""

    async def read(self) -> Issued | None:
        """What is there; None if nothing is, or not everything. BootstrapError if it is not ours to replace."""

    async def write(self, issued: Issued) -> None:
        """Replace it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is to be done about a certificate, and why."""

    keep: Issued | None
    reason: str


def judge(found: Issued | None, wanted: Wanted, now: datetime) -> Verdict:
    """Whether what is there will do."""
    if found is None:
        return Verdict(keep=None, reason="there is none yet")
    try:
        facts = examine(found)
    except ValueError as error:
        return Verdict(keep=None, reason=str(error))
    if wanted.force:
        return Verdict(keep=None, reason="a new one was asked for")
    if missing := facts.missing(wanted.names):
        return Verdict(keep=None, reason=f"it is not for {', '.join(missing)}")
    until = f"{facts.not_after:%Y-%m-%d}"
    if facts.not_after - now <= wanted.renew_before:
        return Verdict(keep=None, reason=f"it is good until {until} only")
    return Verdict(keep=found, reason=f"it is good until {until}")


class Bootstrap:
    """Does it. `say` is told each step, for people; with `dry` nothing is changed."""

    def __init__(
        self, place: Place, *, now: Callable[[], datetime], say: Callable[[str], None], dry: bool = False
    ) -> None:
        self._place = place
        self._now = now
        self._say = say
        self._dry = dry

    async def run(self, wanted: Wanted, api: Api | None = None, configuration: str = "") -> None:
        """Certificate and, if a webhook configuration is named, the authorities that it trusts."""
        for left in reversed(range(_ROUNDS)):
            try:
                await self._round(wanted, api, configuration)
                return
            except ApiError as error:
                if error.code != 409 or not left:
                    raise

    async def _round(self, wanted: Wanted, api: Api | None, configuration: str) -> None:
        verdict = judge(await self._place.read(), wanted, self._now())
        issued = verdict.keep
        if issued is None:
            self._say(f"{self._place.title}: a new certificate for {', '.join(wanted.names)}: {verdict.reason}")
            issued = issue(wanted.names, wanted.lifetime, self._now())
        else:
            self._say(f"{self._place.title}: the certificate stays: {verdict.reason}")
        if api is not None and configuration:
            await self._trust(api, configuration, issued)
        if verdict.keep is None and not self._dry:
            await self._place.write(issued)

    async def _trust(self, api: Api, name: str, issued: Issued) -> None:
        found = await api.get(MUTATING_WEBHOOKS, name)
        changed = with_authority(found, issued.authority, self._now())
        what = f"{MUTATING_WEBHOOKS.kind} {name}"
        if changed is None:
            self._say(f"{what}: trusts it already")
            return
        self._say(f"{what}: shall trust it")
        if not self._dry:
            await api.replace(MUTATING_WEBHOOKS, name, changed)


def with_authority(found: Object, authority: bytes, now: datetime) -> dict[str, Any] | None:
    """The configuration with this authority in each of its webhooks; None if it is as it should be."""
    webhooks = []
    for one in found.get("webhooks") or []:
        client = one.get("clientConfig") or {}
        trusted = bundle(_decoded(client.get("caBundle")), authority, now)
        webhooks.append({**one, "clientConfig": {**client, "caBundle": _encoded(trusted)}})
    if not webhooks:
        raise BootstrapError(f"{MUTATING_WEBHOOKS.kind} {_name_of(found)}: has no webhooks")
    return None if webhooks == found["webhooks"] else {**found, "webhooks": webhooks}


class SecretPlace:
    """A Secret of the type kubernetes.io/tls."""

    def __init__(self, api: Api, namespace: str, name: str, *, force: bool = False) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._force = force
        self._found: Object | None = None

    @property
    def title(self) -> str:
        """For people."""
        return f"Secret {self._namespace}/{self._name}"

    async def read(self) -> Issued | None:
        """What is in it. Somebody else's that cannot be used is for them to mend."""
        try:
            self._found = await self._api.get(SECRETS, self._name, namespace=self._namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            self._found = None
            return None
        data = self._found.get("data") or {}
        parts = {name: _decoded(data.get(name)) for name in (AUTHORITY, CERTIFICATE, KEY)}
        if not all(parts.values()):
            return None
        return Issued(authority=parts[AUTHORITY], certificate=parts[CERTIFICATE], key=parts[KEY])

    async def write(self, issued: Issued) -> None:
        """Create it, or replace its data; what others put beside it stays."""
        data = {AUTHORITY: issued.authority, CERTIFICATE: issued.certificate, KEY: issued.key}
        encoded = {name: _encoded(pem) for name, pem in data.items()}
        if self._found is None:
            await self._api.create(SECRETS, self._fresh(encoded), namespace=self._namespace)
            return
        label, owner = _OWNER
        labels: Mapping[str, str] = self._found["metadata"].get("labels") or {}
        if labels.get(label) != owner and not self._force:
            raise BootstrapError(
                f"{self.title}: is not ours (label {label} is not {owner}): let its owner renew it, or use --force"
            )
        body = {**self._found, "data": {**(self._found.get("data") or {}), **encoded}}
        await self._api.replace(SECRETS, self._name, body, namespace=self._namespace)

    def _fresh(self, data: Mapping[str, str]) -> dict[str, Any]:
        label, owner = _OWNER
        return {
            "apiVersion": SECRETS.api_version,
            "kind": SECRETS.kind,
            "metadata": {"name": self._name, "namespace": self._namespace, "labels": {label: owner}},
            "type": "kubernetes.io/tls",
            "data": data,
        }


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except binascii.Error:
        return b""


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _name_of(found: Object) -> str:
    return str((found.get("metadata") or {}).get("name", ""))
