"""Authorization at registries: challenges, headers and token requests. Pure.

WWW-Authenticate: Bearer realm="https://auth.example/token",service="registry",scope="repository:a/b:pull"
WWW-Authenticate: Basic realm="registry"
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from interpose.node.runtime.images.types import Auth

_WORD: Final = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_SCHEME: Final = re.compile(rf"\s*,?\s*({_WORD})(?:\s+(?!=)|$|(?=,))")
_PARAMETER: Final = re.compile(rf'\s*,?\s*({_WORD})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_WORD}))\s*(?=,|$)')
_LOOSE: Final = re.compile(r"\s*,?\s*[^\s,=]+=*\s*(?=,|$)")  # token68, which no known registry uses
_CLIENT: Final = "interpose"
# The default of the protocol for the lifetime of a token.
_DEFAULT_SECONDS: Final = 60.0
_SPARE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """A challenge of a registry. The scheme is in lower case, and so are the parameter names."""

    scheme: str
    parameters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """A request to a token server; a form means POST."""

    url: str
    authorization: str = field(default="", repr=False)
    form: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token, and its lifetime in seconds."""

    text: str = field(repr=False)
    seconds: float


def parse_challenges(header: str) -> tuple[Challenge, ...]:
    """Parse the challenges of a header, or of several joined ones, up to the first error."""
    found: list[Challenge] = []
    at = 0
    while (scheme := _SCHEME.match(header, at)) is not None:
        at = scheme.end()
        parameters: dict[str, str] = {}
        while (parameter := _PARAMETER.match(header, at)) is not None:
            name, quoted, plain = parameter.groups()
            parameters[name.lower()] = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            at = parameter.end()
        if not parameters and (loose := _LOOSE.match(header, at)) is not None and "=" in loose[0]:
            at = loose.end()
        found.append(Challenge(scheme=scheme[1].lower(), parameters=MappingProxyType(parameters)))
    return tuple(found)


def basic_header(auth: Auth) -> str:
    """The Basic header of user and password; empty without them. ValueError if they cannot be decoded."""
    username, password = user_and_password(auth)
    if not username and not password:
        return ""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def user_and_password(auth: Auth) -> tuple[str, str]:
    """User and password, from either form of the credentials."""
    if auth.username or auth.password or not auth.auth:
        return auth.username, auth.password
    try:
        text = base64.b64decode(auth.auth, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise ValueError("the credentials: `auth` is not base64 of USER:PASSWORD") from None
    username, colon, password = text.partition(":")
    if not colon:
        raise ValueError("the credentials: `auth` is not base64 of USER:PASSWORD")
    return username, password.rstrip("\0")  # some tools pad it


def token_request(challenge: Challenge, auth: Auth | None, *, scope: str) -> TokenRequest:
    """The request for a token; `scope` is the default of the challenge's scope. ValueError for a bad realm."""
    realm = challenge.parameters.get("realm", "")
    parts = urlsplit(realm)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError(f"it wants a token from {realm[:200]!r}, which is not an address")
    parameters = {
        "service": challenge.parameters.get("service", ""),
        "scope": challenge.parameters.get("scope") or scope,
    }
    query = {key: value for key, value in parameters.items() if value}
    if auth is not None and auth.identity_token:
        form = {"grant_type": "refresh_token", "refresh_token": auth.identity_token, "client_id": _CLIENT} | query
        return TokenRequest(url=realm, form=urlencode(form).encode())
    joined = f"{realm}{'&' if parts.query else '?'}{urlencode(query)}" if query else realm
    return TokenRequest(url=joined, authorization=basic_header(auth) if auth is not None else "")


def read_token(body: bytes) -> Token:
    """Parse the answer of a token server; ValueError if it has no token. The message has no part of the answer."""
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("the answer to the request for a token is not JSON") from None
    text = (found.get("token") or found.get("access_token")) if isinstance(found, dict) else None
    if not isinstance(text, str) or not text.isascii() or not text.isprintable():
        raise ValueError("the answer to the request for a token has none in it")
    seconds = found.get("expires_in")
    lifetime = float(seconds) if isinstance(seconds, int | float) and 0 < seconds < 1e9 else _DEFAULT_SECONDS
    return Token(text=text, seconds=max(lifetime - _SPARE_SECONDS, lifetime / 2))
