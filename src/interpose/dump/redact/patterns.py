"""How single texts are hidden: marks, URLs, logins, names that sound secret. Pure; hiding twice is hiding once.

Texts may be long, and made to be slow: whatever is searched here is passed over once, so none of it is bounded in
length, and what looks like a secret is hidden in doubt.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from interpose.config.dump_redaction import SECRET_WORDS

REDACTED: Final = "<redacted>"
_MEMO: Final = 4096  # keys; a node has a few dozen
_LONGEST_KEY: Final = 1024

# -- names

_NO_LETTERS: Final = str.maketrans("", "", "-_. ")
_SECRET: Final = re.compile(
    "|".join((*SECRET_WORDS, "authorization", "authconfig", "cookie", "(auths?|pwd|jwt)$", "^pass$"))
)
# Only where names are few and known to be about requests: much else is called a key.
_LETS_IN: Final = re.compile(r"(key|session|sessionid|sig|signature)$")


def squeezed(name: str) -> str:
    """A name as names are compared: `X-Registry_Auth` is `xregistryauth`."""
    return name.lower().translate(_NO_LETTERS)


def names_secret(name: str) -> bool:
    """Whether something of this name is a secret."""
    return _SECRET.search(squeezed(name)) is not None


def names_access(name: str) -> bool:
    """The same for parameters, options and metadata, where a `key` is one that opens something."""
    return names_secret(name) or _LETS_IN.search(squeezed(name)) is not None


def hides_metadata(key: str) -> bool:
    """Whether this piece of metadata is a secret. Binary ones have a suffix."""
    return names_access(key.lower().removesuffix("-bin"))


# -- texts

# `?token=...`, `&X-Amz-Signature=...`, the same inside of another parameter, `--password=...`, `user=me,password=...`.
# A name ends where the next one may begin, so all of them together are read once.
_NAME: Final = re.compile(
    r"(?P<before>\A|[?&;\s,\"'(\[{]|%(?:26|3[BF]))(?P<name>(?:[^?&;\s,\"'(\[{=%]|%(?!26|3[BDF]))*)(?:=|%3D)",
    re.IGNORECASE,
)
_VALUE: Final = re.compile(
    r"\"(?P<quoted>[^\"]*)|'(?P<single>[^']*)|(?P<plain>(?:[^\s&;,\"\\]|\\(?!\")|,(?![^\s&;,\"=]*=))+)"
)
_FREE: Final = frozenset(" \t\r\n,\"'([{")  # in front of a name that is no parameter of a URL
# `Authorization: Bearer ...`, but neither `Bearer realm="..."`, which asks for one, nor `no basic auth credentials`.
_LOGIN: Final = re.compile(
    r"\bauthorization[\"']?[ \t]*[:=][ \t]*[\"']?(?!<redacted>)(?P<header>[^\s\"']+(?:[ \t]+[^\s\"']+)?)"
    r"|\b(?:bearer|(?-i:Basic|BASIC))[ \t]+"
    r"(?!realm=|<redacted>|(?:auth|authentication|authorization|tokens?|credentials?|scheme)(?![\w.=/+-]))"
    r"(?P<login>[^\s\"']+)",
    re.IGNORECASE,
)
# An image's digest, not a host with a port.
_DIGEST: Final = re.compile(r"@sha\d+:(?!\d{1,5}(?!\w))[0-9a-f]")
_SUSPICIOUS: Final = re.compile(r"[@=: ]|%3")  # without any of these there is nothing to find
_ROUNDS: Final = 5  # what is left of a text seldom looks like a secret again
_ENDS_WORD: Final = ' \t\r\n"'
_NO_USER: Final = re.compile(rf"[/?#{_ENDS_WORD}]")  # ends the part of a URL that has user and host
_PORT: Final = re.compile(r"\d{0,5}")
# Runtimes answer with /exec/TOKEN; whoever has it is in the container.
_STREAMING: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*://)(?P<user>[^/?#]*@)?(?P<host>(?:[\w.-]*|\[[0-9a-f:.]*\])(?::\d{1,5})?)(?![^/?#])"
    r"(?P<kind>/(?:exec|attach|portforward|port-forward)/)?",
    re.IGNORECASE,
)


def hide_credentials(text: str) -> str:
    """A text with what lets somebody in taken out: of URLs, of parameters, of headers."""
    return text if _SUSPICIOUS.search(text) is None else _hidden(text, _ROUNDS)


def _hidden(text: str, rounds: int) -> str:
    hidden = _without(text, sorted(_secrets(text)))
    return hidden if hidden == text or rounds == 1 else _hidden(hidden, rounds - 1)


def _without(text: str, secrets: list[tuple[int, int]]) -> str:
    """A text without these parts, which may overlap."""
    shown: list[str] = []
    at = 0
    for start, end in secrets:
        if start >= at:
            shown += (text[at:start], REDACTED)
        at = max(at, end)
    return "".join((*shown, text[at:]))


def _secrets(text: str) -> Iterator[tuple[int, int]]:
    """All of them are looked for in the same text: one may have in it what ends another."""
    if "@" in text:
        yield from _users(text)
    if "=" in text or "%3" in text:
        yield from _parameters(text)
    if ":" in text or " " in text or "=" in text:
        yield from (found.span(found.lastgroup or 0) for found in _LOGIN.finditer(text))


def _parameters(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    for found in _NAME.finditer(text):
        if found.start() < at:
            continue  # inside of what is hidden
        secret = names_secret if not found["before"] or found["before"] in _FREE else names_access
        value = _VALUE.match(text, found.end()) if secret(found["name"]) else None
        if value is not None:
            at = value.end()
            yield value.span(value.lastgroup or 0)


def _users(text: str) -> Iterator[tuple[int, int]]:
    """Looks at what is in front of each `@`."""
    at = 0
    while (end := text.find("@", at)) >= 0:
        start = None if _DIGEST.match(text, end) else _user(text[at:end])
        if start is not None:
            host = _NO_USER.search(text, end)
            end = text.rfind("@", end, host.start() if host else len(text))
            yield at + start, end
        at = end + 1


def _user(text: str) -> int | None:
    """Where a login begins that ends with this text, if there is one."""
    if text.endswith(f"://{REDACTED}"):
        return None
    blank = max(map(text.rfind, _ENDS_WORD))
    at = text.find("://")
    while at >= 0:
        at += 3
        if _is_login(text, at, blank):
            return at
        at = text.find("://", at)
    word = text[blank + 1 :]
    return blank + 1 if ":" in word and "://" not in word else None


def _is_login(text: str, at: int, blank: int) -> bool:
    """`user@`, `user:password@`; also with characters in the password that break the URL but not an error text.

    Not `host:5000/...`, unless it is all one word.
    """
    end = _NO_USER.search(text, at)
    if end is None:
        return True
    colon = text.find(":", max(at, text.find("]", at, end.start())), end.start())
    if colon < 0:
        return False
    is_port = _PORT.fullmatch(text, colon + 1, end.start()) is not None
    return not is_port or blank < end.start()


def hide_option(option: str, *, every: bool = False) -> str:
    """The options of a mount: `ro`, `password=...`, or several with commas. `every`: all values."""
    parts = re.split(r",(?=[^=,]*=)", hide_credentials(option))
    return hide_credentials(",".join(_hidden_option(part, every) for part in parts))


def _hidden_option(option: str, every: bool) -> str:
    name, equals, value = option.partition("=")
    return f"{name}={hide_value(value)}" if equals and (every or names_access(name)) else option


def hide_token(url: str) -> str:
    """The URL of a streaming call without what lets one in."""
    if not url:
        return url
    match = _STREAMING.match(url)
    if match is None or "@" in url[match.end() :]:
        return REDACTED
    user = match["user"] and f"{REDACTED}@"
    return f"{match['scheme']}{user or ''}{match['host']}{match['kind'] or '/'}{REDACTED}"


def hide_value(value: str) -> str:
    """The mark; nothing stays nothing, for there is nothing to hide."""
    return value and REDACTED


_Answer = TypeVar("_Answer")


class Memo(dict[str, _Answer], Generic[_Answer]):
    """Answers about texts, asked for once: the same few come again and again. Bounded.

    A dict, so that a known answer costs no call: lists of a full node have thousands of keys, every second.
    """

    def __init__(self, ask: Callable[[str], _Answer]) -> None:
        super().__init__()
        self._ask = ask

    def __missing__(self, key: str) -> _Answer:
        answer = self._ask(key)
        if len(key) <= _LONGEST_KEY:
            if len(self) >= _MEMO:
                self.clear()
            self[key] = answer
        return answer
