"""The target of a request as Go's server reads it: path, decoded once, and query, as it is.

Four forms: `/path?query`, `http://host/path?query`, `*`, and `host:port` for CONNECT. What Go would take for something
else (`http:path`, `path` without a slash, escapes that are none) is refused: then nobody is routed by one path and
served by another.
"""

import re
from typing import Final, NamedTuple

from interpose.net.h1.rules import Malformed, shown

_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/]*(.*)", re.DOTALL)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")


class Target(NamedTuple):
    """`path` has no query, scheme or host; a byte of it is a letter of the same number, so that nothing is lost."""

    path: str
    query: str


def read(method: str, target: str) -> Target:
    """Take a target apart. It has no white space and no control characters. Raises Malformed."""
    if method == "CONNECT" and not target.startswith("/"):
        return Target("", "")
    if target == "*":
        return Target("*", "")
    rest, _, query = target.partition("?")
    if not rest.startswith("/"):
        match = _ABSOLUTE.fullmatch(rest)
        if match is None:
            raise Malformed(400, f"the target of the request is {shown(target.encode('latin-1'))}")
        rest = match[1]
    if "%" in rest:
        if _BAD_ESCAPE.search(rest) is not None:
            raise Malformed(
                400, f"the target of the request has a % that escapes nothing: {shown(target.encode('latin-1'))}"
            )
        rest = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), rest)
    return Target(rest, query)
