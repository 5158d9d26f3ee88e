"""Credentials for registries: whom they are for, and as `docker login` writes them: config.json. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Final

from interpose.node.runtime.images.registry.reference import DEFAULT_DOMAIN, ImageReference
from interpose.node.runtime.images.types import Auth

# What Docker calls its own registry.
_ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    DEFAULT_DOMAIN: ("index.docker.io", "registry-1.docker.io"),
}


def credentials(text: str, where: str, image: ImageReference) -> Auth | None:
    """What the file has for an image, or None; ValueError names the file and the key. Programs are not asked.

    A key may be a registry or a part of one (`host/team`): of several that fit, the longest path counts.
    """
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{where}: it is not JSON") from None
    auths = document.get("auths") if isinstance(document, dict) else None
    if auths is None:
        return None
    if not isinstance(auths, dict):
        raise ValueError(f"{where}: key auths: it is not a group of registries")
    fitting = [key for key in auths if _fits(key, image)]
    if not fitting:
        return None
    best = max(fitting, key=lambda key: len(_split(key)[1]))
    return _auth(auths[best], f"{where}: key auths.{best}")


def credentials_for_registry(auth: Auth | None, domain: str) -> Auth | None:
    """The credentials if they are meant for this registry; those of another one are never shown to it."""
    if auth is None or not auth.server_address:
        return auth
    return auth if _same_registry(_split(auth.server_address)[0], domain) else None


def _fits(key: str, image: ImageReference) -> bool:
    host, path = _split(key)
    return _same_registry(host, image.domain) and f"{image.path}/".startswith(f"{path}/" if path else "")


def _same_registry(host: str, domain: str) -> bool:
    return host in (domain, *_ALSO.get(domain, ()))


def _split(key: str) -> tuple[str, str]:
    """Keys are hosts, with a path or without, or addresses with a scheme and a version of the protocol."""
    _, scheme, rest = key.rpartition("://")
    host, _, path = rest.partition("/")
    path = path.rstrip("/")
    return host, "" if scheme and path in ("v1", "v2") else path


def _auth(given: object, what: str) -> Auth | None:
    if not isinstance(given, dict):
        raise ValueError(f"{what}: it is not a group of keys")
    names = {"auth": "auth", "username": "username", "password": "password", "identitytoken": "identity_token"}
    values: dict[str, str] = {}
    for key, field in (*names.items(), ("registrytoken", "registry_token")):
        value = given.get(key, "")
        if not isinstance(value, str):
            raise ValueError(f"{what}.{key}: it is not text")
        values[field] = value
    return Auth(**values) if any(values.values()) else None  # empty: it is with a program of its own
