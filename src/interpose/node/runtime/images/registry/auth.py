"""How registries say whom they let in, and what is shown to them. Pure.

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
_LOOSE: Final = re.compile(r"\s*,?\s*[^\s,=]+=*\s*(?=,|$)")  # token68: nobody that we know uses it
_CLIENT: Final = "interpose"
# As the protocol has it where a registry does not say how long a token is good.
_DEFAULT_SECONDS: Final = 60.0
_SPARE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """One way to be let in. The scheme is in lower case, and so are the names."""

    scheme: str
    parameters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """What is asked of whoever gives tokens away; a form means POST."""

    url: str
    authorization: str = field(default="", repr=False)
    form: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What was given, and for how many seconds it is good."""

    text: str = field(repr=False)
    seconds: float


def parse_challenges(header: str) -> tuple[Challenge, ...]:
    """The challenges of a header, or of several that were joined; what cannot be read ends them."""
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


def basic(auth: Auth) -> str:
    """The header for a user and a password; empty if there is none. ValueError if they cannot be read."""
    username, password = user_and_password(auth)
    if not username and not password:
        return ""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


def user_and_password(auth: Auth) -> tuple[str, str]:
    """As two words, however they came."""
    if auth.username or auth.password or not auth.auth:
        return auth.username, auth.password
    try:
        text = base64.b64decode(auth.auth, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise ValueError("the credentials: `auth` is not base64 of USER:PASSWORD") from None
    username, colon, password = text.partition(":")
    if not colon:
        raise ValueError("the credentials: `auth` is not base64 of USER:PASSWORD")
    return username, password.rstrip("\0")  # some tools fill it up


def token_request(challenge: Challenge, auth: Auth | None, *, scope: str) -> TokenRequest:
    """How a token is asked for; `scope` is what we want if the challenge does not say. ValueError for a bad realm."""
    realm = challenge.parameters.get("realm", "")
    parts = urlsplit(realm)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError(f"it wants a token from {realm[:200]!r}, which is not an address")
    wanted = {"service": challenge.parameters.get("service", ""), "scope": challenge.parameters.get("scope") or scope}
    query = {key: value for key, value in wanted.items() if value}
    if auth is not None and auth.identity_token:
        form = {"grant_type": "refresh_token", "refresh_token": auth.identity_token, "client_id": _CLIENT} | query
        return TokenRequest(url=realm, form=urlencode(form).encode())
    joined = f"{realm}{'&' if parts.query else '?'}{urlencode(query)}" if query else realm
    return TokenRequest(url=joined, authorization=basic(auth) if auth is not None else "")


def read_token(body: bytes) -> Token:
    """The answer to such a request; ValueError if there is no token in it. Nothing of it is in the message."""
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("the answer to the request for a token is not JSON") from None
    text = (found.get("token") or found.get("access_token")) if isinstance(found, dict) else None
    if not isinstance(text, str) or not text.isascii() or not text.isprintable():
        raise ValueError("the answer to the request for a token has none in it")
    seconds = found.get("expires_in")
    good = float(seconds) if isinstance(seconds, int | float) and 0 < seconds < 1e9 else _DEFAULT_SECONDS
    return Token(text=text, seconds=max(good - _SPARE_SECONDS, good / 2))
