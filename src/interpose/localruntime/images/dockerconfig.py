"""Credentials for registries: whom they are for, and as `docker login` writes them: config.json. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Final

from interpose.localruntime.images.references import DEFAULT_DOMAIN
from interpose.localruntime.images.values import Auth

# What Docker calls its own registry.
_ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    DEFAULT_DOMAIN: ("index.docker.io", "registry-1.docker.io"),
}


def credentials(text: str, where: str, domain: str) -> Auth | None:
    """What the file has for a registry, or None; ValueError names the file and the key. Programs are not asked."""
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{where}: it is no JSON") from None
    auths = document.get("auths") if isinstance(document, dict) else None
    if auths is None:
        return None
    if not isinstance(auths, dict):
        raise ValueError(f"{where}: key auths: it is no group of registries")
    wanted = (domain, *_ALSO.get(domain, ()))
    for key, given in auths.items():
        if _host(key) in wanted:
            return _auth(given, f"{where}: key auths.{key}")
    return None


def shown_to(auth: Auth | None, domain: str) -> Auth | None:
    """The credentials if they are meant for this registry; those of another one are never shown to it."""
    if auth is None or not auth.server_address:
        return auth
    return auth if _host(auth.server_address) in (domain, *_ALSO.get(domain, ())) else None


def _host(key: str) -> str:
    """Keys are hosts, or addresses with a scheme and a version of the protocol."""
    return key.partition("://")[2].partition("/")[0] if "://" in key else key.partition("/")[0]


def _auth(given: object, what: str) -> Auth | None:
    if not isinstance(given, dict):
        raise ValueError(f"{what}: it is no group of keys")
    names = {"auth": "auth", "username": "username", "password": "password", "identitytoken": "identity_token"}
    values: dict[str, str] = {}
    for key, field in (*names.items(), ("registrytoken", "registry_token")):
        value = given.get(key, "")
        if not isinstance(value, str):
            raise ValueError(f"{what}.{key}: it is no text")
        values[field] = value
    return Auth(**values) if any(values.values()) else None  # empty: it is with a program of its own
