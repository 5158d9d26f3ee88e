"""Credentials for registries, as `docker login` writes them to config.json. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Final

from interpose.node.runtime.images.registry.reference import DEFAULT_DOMAIN, ImageReference
from interpose.node.runtime.images.types import Auth

# Other names of Docker's own registry.
_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    DEFAULT_DOMAIN: ("index.docker.io", "registry-1.docker.io"),
}


def credentials(text: str, where: str, image: ImageReference) -> Auth | None:
    """The credentials in the file for an image, or None; ValueError names file and key. Helpers are not called.

    A key may be a registry or a part of one (`host/team`): of several that match, the longest path counts.
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
    matching = [key for key in auths if _matches(key, image)]
    if not matching:
        return None
    best = max(matching, key=lambda key: len(_split(key)[1]))
    return _auth(auths[best], f"{where}: key auths.{best}")


def credentials_for_registry(auth: Auth | None, domain: str) -> Auth | None:
    """The credentials if they are for this registry; those of another one are never sent to it."""
    if auth is None or not auth.server_address:
        return auth
    return auth if _same_registry(_split(auth.server_address)[0], domain) else None


def _matches(key: str, image: ImageReference) -> bool:
    host, path = _split(key)
    return _same_registry(host, image.domain) and f"{image.path}/".startswith(f"{path}/" if path else "")


def _same_registry(host: str, domain: str) -> bool:
    return host in (domain, *_ALIASES.get(domain, ()))


def _split(key: str) -> tuple[str, str]:
    """Host and path of a key: a host, with a path or without, or a URL with a version of the protocol."""
    _, scheme, rest = key.rpartition("://")
    host, _, path = rest.partition("/")
    path = path.rstrip("/")
    return host, "" if scheme and path in ("v1", "v2") else path


def _auth(entry: object, subject: str) -> Auth | None:
    if not isinstance(entry, dict):
        raise ValueError(f"{subject}: it is not a group of keys")
    names = {"auth": "auth", "username": "username", "password": "password", "identitytoken": "identity_token"}
    values: dict[str, str] = {}
    for key, field in (*names.items(), ("registrytoken", "registry_token")):
        value = entry.get(key, "")
        if not isinstance(value, str):
            raise ValueError(f"{subject}.{key}: it is not text")
        values[field] = value
    return Auth(**values) if any(values.values()) else None  # empty: a credential helper has it
