"""How single texts are hidden: marks, URLs, metadata. Pure; hiding twice is hiding once."""

import re
from collections.abc import Callable
from typing import Final

from interpose.config.dump_redaction import SECRET_WORDS

REDACTED: Final = "<redacted>"
_MEMO: Final = 4096  # keys; a node has a few dozen

# `https://user:password@host`; also with a slash in the password, which breaks the URL but shows it in error texts. Not
# `https://host:5000/image@sha256:...`. All repetitions are bounded: texts may be long, and made to be slow.
_USER: Final = re.compile(
    r"(://)(?!<redacted>@)(?:[^\s/?#\"'\\]{1,512}@|[^\s/?#\"':]{1,256}:[^\s\"'@]{1,256}@(?!sha\d))"
)
# `?token=...`, `&X-Amz-Signature=...`
_PARAMETER: Final = re.compile(
    r"([?&;][\w.-]{0,40}(?:token|sig|password|passwd|secret|credential|key|auth)[\w.-]{0,40}=)[^\s&;#\"'\\]+",
    re.IGNORECASE,
)
# Runtimes answer with /exec/TOKEN; whoever has it is in the container.
_STREAMING: Final = re.compile(
    r"(?P<host>[a-z][a-z0-9+.-]*://[^/?#]*)(?P<kind>/(?:exec|attach|portforward|port-forward)/)?", re.IGNORECASE
)
_METADATA: Final = re.compile("|".join(("authorization", "cookie", *SECRET_WORDS)), re.IGNORECASE)


def hide_credentials(text: str) -> str:
    """A text with what is secret in the URLs in it taken out."""
    if "://" not in text:
        return text
    return _PARAMETER.sub(rf"\g<1>{REDACTED}", _USER.sub(rf"\g<1>{REDACTED}@", text))


def hide_token(url: str) -> str:
    """The URL of a streaming call without what lets one in."""
    if not url:
        return url
    match = _STREAMING.match(url)
    if match is None:
        return REDACTED
    return f"{hide_credentials(match['host'])}{match['kind'] or '/'}{REDACTED}"


def hides_metadata(key: str) -> bool:
    """Whether this piece of metadata is a secret."""
    return _METADATA.search(key) is not None


def hide_value(value: str) -> str:
    """The mark; nothing stays nothing, for there is nothing to hide."""
    return value and REDACTED


class Memo(dict[str, bool]):
    """Answers about keys, asked for once: the same few come again and again. Bounded.

    A dict, so that a known answer costs no call: lists of a full node have thousands of keys, every second.
    """

    def __init__(self, ask: Callable[[str], bool]) -> None:
        super().__init__()
        self._ask = ask

    def __missing__(self, key: str) -> bool:
        if len(self) >= _MEMO:
            self.clear()
        answer = self[key] = self._ask(key)
        return answer
