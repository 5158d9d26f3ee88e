"""The page of a recording, piece by piece.

Pure but for the resources it is given. A piece holds a few hundred calls at most, so a page of any size takes little
memory to make. Invariants: nothing of a call is markup (see `blocks`), and the page lets only its own script and style
run, which it names by their hashes.
"""

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any, Final

from interpose.cri.methods import METHODS, Concern

# JSON can write any character as a number; these have a meaning in HTML.
_HARMLESS: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
# What a browser can count to: all its numbers are doubles.
EXACT: Final = (1 << 53) - 1


def block(kind: str, value: Any) -> str:
    """One element with data; `kind` is what the script looks for."""
    return element(kind, harmless_json(value))


def element(kind: str, text: str) -> str:
    """The same of JSON that is harmless already."""
    return f'<script type="application/json" class="data-{kind}">{text}</script>\n'


def harmless_json(value: Any) -> str:
    """JSON that is also safe as the text of an element."""
    text = json.dumps(portable(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.translate(_HARMLESS)


def portable(value: Any) -> Any:
    """The same with numbers that browsers read as they are.

    Whole numbers beyond `EXACT` become `[null, "digits"]`, which is not a list of ours: trees have no null. The numbers
    that JSON does not have become their names, everything else that it does not have becomes text.
    """
    if isinstance(value, Mapping):
        return {str(key): portable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [portable(item) for item in value]
    if isinstance(value, int) and not -EXACT <= value <= EXACT:
        return [None, str(value)]
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: ".inf", -math.inf: "-.inf"}.get(value, ".nan")
    return value if value is None or isinstance(value, str | int | float) else str(value)


# In this order. A part uses only what stands above it.
PARTS: Final = ("dom", "data", "yaml", "filter", "tree", "list", "lanes", "timeline", "latency", "detail", "main")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The templates, scripts and styles of the page."""

    template: str
    style: str
    script: str


def load_resources() -> Resources:
    """Read them from the package."""
    folder = resources.files(__package__)
    parts = "\n".join((folder / "parts" / f"{name}.js").read_text("utf-8") for name in PARTS)
    return Resources(
        template=(folder / "page.html").read_text("utf-8"),
        style=(folder / "page.css").read_text("utf-8"),
        script=f'(() => {{\n"use strict";\n{parts}}})();\n',
    )


# Of a method without a row here: `other`.
FAMILIES: Final[Mapping[Concern, str]] = MappingProxyType(
    {
        Concern.POD_CREATE: "pod",
        Concern.POD_STOP: "pod",
        Concern.POD_REMOVE: "pod",
        Concern.RESTORE_POD: "pod",
        Concern.CHECKPOINT: "pod",
        Concern.CONTAINER_CREATE: "container",
        Concern.CONTAINER_START: "container",
        Concern.CONTAINER_STOP: "container",
        Concern.CONTAINER_REMOVE: "container",
        Concern.CONTAINER_LOG: "container",
        Concern.POD_UPDATE: "update",
        Concern.CONTAINER_UPDATE: "update",
        Concern.EXEC: "exec",
        Concern.STREAMING_URL: "exec",
        Concern.IMAGE: "image",
        Concern.POD_STATUS: "status",
        Concern.CONTAINER_STATUS: "status",
        Concern.LIST_PODS: "status",
        Concern.LIST_CONTAINERS: "status",
        Concern.EVENTS: "status",
        Concern.STATS: "stats",
        Concern.METRICS: "stats",
        Concern.NODE: "node",
    }
)


def families() -> dict[str, str]:
    """The family of each CRI method, for colours."""
    return {name: FAMILIES[method.concern] for name, method in METHODS.items()}


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
        replies = [message["size"] for message in messages if message["side"] in _ANSWERED]
        return [
            *(document[key] for key in ROW),
            (document["time_ns"] - self._first) / 1e6,
            sum(message["size"] for message in messages if message["side"] in _SENT),
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
