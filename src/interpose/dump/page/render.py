"""The page of a recording, piece by piece.

Pure but for the resources it is given. A piece holds a few hundred calls at most, so a page of any size takes little
memory to make. Invariants: nothing of a call is markup (see `blocks`), and the page lets only its own script and style
run, which it names by their hashes.
"""

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from interpose.dump.page.blocks import block, element, harmless_json
from interpose.dump.page.families import families
from interpose.dump.page.resources import Resources, load_resources

# Calls on one page: what a browser still filters while one types.
LIMIT: Final = 50_000
# Messages on one page, as characters of JSON. Lists of all containers, asked for each second, would make it gigabytes.
BODIES: Final = 96 << 20
# Calls of one block, and where a block is full before that.
_BLOCK_CALLS: Final = 200
_BLOCK_SIZE: Final = 1 << 20

# What the list, the timeline and the filter need of a call. Everything else is read when the call is opened.
ROW: Final = (
    *("number", "time", "method", "service", "path", "kind", "origin", "pid", "uid"),
    *("subject", "namespace", "pod", "pod_uid", "pod_id", "container", "container_id", "image"),
    *("status", "code", "message", "duration_ms", "changed", "changed_by", "forgotten"),
)
# Computed for the list: when, in milliseconds since the first call; bytes and messages each way.
COMPUTED: Final = ("at_ms", "sent", "answered", "replies")
_LEFT_TO_ROWS: Final = frozenset((*ROW, "time_ns"))
_SENT: Final = frozenset({"request"})
_ANSWERED: Final = frozenset({"reply"})

_POLICY: Final = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; base-uri 'none'; "
    "form-action 'none'; trusted-types 'none'; require-trusted-types-for 'script'"
)


def render_page(
    documents: Iterable[Mapping[str, Any]],
    *,
    header: Mapping[str, Any],
    title: str,
    filter_text: str = "",
    limit: int = LIMIT,
    bodies: int = BODIES,
    resources: Resources | None = None,
) -> Iterator[str]:
    """The page in pieces.

    `header` are the facts of the recording; `host` and `damage` (a text or several) are shown, the others on request.
    The first `limit` calls are on the page; messages are, until `bodies` characters are used up. What is left out is
    counted, and the page says so.
    """
    resources = resources or load_resources()
    first, last = _frame(resources, title)
    yield first
    yield block("head", {"title": title, "filter": filter_text, "facts": dict(header), "families": families()})
    yield block("columns", [*ROW, *COMPUTED])
    filling = _Filling(limit=limit, bodies=bodies)
    for document in documents:
        yield from filling.add(document)
    yield from filling.rest()
    yield block("tail", filling.tail())
    yield last


class _Filling:
    """Blocks as they fill up, and what did not get in."""

    def __init__(self, *, limit: int, bodies: int) -> None:
        self._limit = limit
        self._bodies_left = bodies
        self._first: int | None = None
        self._calls = 0
        self._unshown = 0
        self._bodiless = 0
        self._rows: list[list[Any]] = []
        self._details: list[str] = []
        self._size = 0

    def add(self, document: Mapping[str, Any]) -> Iterator[str]:
        """One call; what is full comes out."""
        if self._calls >= self._limit:
            self._unshown += 1
            return
        self._calls += 1
        self._rows.append(self._row(document))
        detail = harmless_json({key: value for key, value in document.items() if key not in _LEFT_TO_ROWS})
        if len(detail) > self._bodies_left:
            detail = "null"
            self._bodiless += 1
        self._bodies_left -= len(detail)
        self._details.append(detail)
        self._size += len(detail)
        if len(self._rows) >= _BLOCK_CALLS or self._size >= _BLOCK_SIZE:
            yield from self.rest()

    def rest(self) -> Iterator[str]:
        """What is in the block that is not full."""
        if self._rows:
            yield block("rows", self._rows)
            yield element("details", f"[{','.join(self._details)}]")
        self._rows, self._details, self._size = [], [], 0

    def tail(self) -> dict[str, Any]:
        """Known when everything was seen."""
        return {
            "start_ms": 0 if self._first is None else self._first / 1e6,
            "calls": self._calls,
            "unshown": self._unshown,
            "bodiless": self._bodiless,
        }

    def _row(self, document: Mapping[str, Any]) -> list[Any]:
        if self._first is None:
            self._first = document["time_ns"]
        messages = document["messages"]
        replies = [one["size"] for one in messages if one["side"] in _ANSWERED]
        return [
            *(document[key] for key in ROW),
            (document["time_ns"] - self._first) / 1e6,
            sum(one["size"] for one in messages if one["side"] in _SENT),
            sum(replies),
            len(replies),
        ]


def _frame(resources: Resources, title: str) -> tuple[str, str]:
    """What stands before and after the data."""
    policy = _POLICY.format(script=_hash(resources.script), style=_hash(resources.style))
    values = {
        "policy": html.escape(policy, quote=True),
        # Names of files may hold what no encoding can write.
        "title": html.escape(title, quote=True).encode("ascii", "xmlcharrefreplace").decode(),
        "style": resources.style,
        "script": resources.script,
    }
    before, _, after = resources.template.partition("{{data}}")
    # One pass each, so that a title cannot ask for another value.
    first, last = (re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], text) for text in (before, after))
    return first, last


def _hash(text: str) -> str:
    """What the policy calls a script or style by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
