"""The forms in which calls are given out: a list, whole calls, YAML, JSON, HAR, a page, and how long they took.

Each is a function of calls that gives text piece by piece, so that the longest recording takes no memory; what has to
see everything first (`latency`, `svg`) keeps numbers only. `FlowTexts` is what filters search in.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from interpose.dump.decode.api import MessageDecoder
from interpose.dump.decode.yaml import yaml_text
from interpose.dump.filter.terms import SEARCHED
from interpose.dump.model.call import Flow
from interpose.dump.model.frames import MessageSide
from interpose.dump.output.detail import detail_lines
from interpose.dump.output.har import har_pieces
from interpose.dump.output.json import flow_document
from interpose.dump.output.latency import LatencyCounter, latency_lines, latency_svg
from interpose.dump.output.list import CallListWriter, Style
from interpose.dump.page.render import LIMIT, render_page

_WIDTH: Final = 100  # of plots where there is no terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputContext:
    """What an output may want to know besides calls."""

    decoder: MessageDecoder
    width: int = 0  # of the terminal; 0: there is none
    style: Style | None = None
    ascii_only: bool = False
    growing: bool = False  # calls may be long in coming
    title: str = "Calls"
    filter_text: str = ""
    limit: int = LIMIT  # calls on a page
    facts: Mapping[str, Any] = field(default_factory=dict)  # of the recording


Output = Callable[[Iterable[Flow], OutputContext], Iterator[str]]


def _list(flows: Iterable[Flow], view: OutputContext) -> Iterator[str]:
    calls = CallListWriter(view.width, view.style)
    head = calls.head() + "\n"
    if view.growing:
        yield head
        head = ""
    for flow in flows:
        yield head + "".join(f"{line}\n" for line in calls.lines(flow))
        head = ""


def _detail(flows: Iterable[Flow], view: OutputContext) -> Iterator[str]:
    for index, flow in enumerate(flows):
        lines = detail_lines(flow_document(flow, view.decoder), view.style)
        yield ("\n" if index else "") + "".join(f"{line}\n" for line in lines)


def _yaml(flows: Iterable[Flow], view: OutputContext) -> Iterator[str]:
    for flow in flows:
        # Key by key: what a call is comes first, not what begins with a.
        parts = (yaml_text({key: value}) for key, value in flow_document(flow, view.decoder).items())
        yield "---\n" + "".join(parts)


def _jsonl(flows: Iterable[Flow], view: OutputContext) -> Iterator[str]:
    for flow in flows:
        yield json.dumps(flow_document(flow, view.decoder)) + "\n"


def _har(flows: Iterable[Flow], view: OutputContext) -> Iterator[str]:
    return har_pieces((flow_document(flow, view.decoder) for flow in flows), view.facts)


def _html(flows: Iterable[Flow], view: OutputContext) -> Iterator[str]:
    documents = (flow_document(flow, view.decoder) for flow in flows)
    return render_page(documents, header=view.facts, title=view.title, filter_text=view.filter_text, limit=view.limit)


def _latency(flows: Iterable[Flow], view: OutputContext) -> Iterator[str]:
    rows = _measured(flows).rows()
    for line in latency_lines(rows, width=view.width or _WIDTH, ascii_only=view.ascii_only):
        yield f"{line}\n"


def _svg(flows: Iterable[Flow], view: OutputContext) -> Iterator[str]:
    yield latency_svg(_measured(flows).rows(), view.title)


def _measured(flows: Iterable[Flow]) -> LatencyCounter:
    latency = LatencyCounter()
    for flow in flows:
        latency.add(flow)
    return latency


OUTPUTS: Final[Mapping[str, Output]] = MappingProxyType(
    {
        "list": _list,
        "detail": _detail,
        "yaml": _yaml,
        "jsonl": _jsonl,
        "har": _har,
        "html": _html,
        "latency": _latency,
        "svg": _svg,
    }
)


class FlowTexts:
    """The messages of a call as YAML, for filters. What is longer than filters search is left out, and counted."""

    def __init__(self, decoder: MessageDecoder) -> None:
        self._decoder = decoder
        self.cut = 0  # texts that were longer

    def __call__(self, flow: Flow, sides: tuple[MessageSide, ...]) -> str:
        """The messages of these sides as text, to be searched."""
        texts: list[str] = []
        length = 0
        for message in flow.messages_of(*sides):
            if length >= SEARCHED:
                break
            decoded = self._decoder.message(flow, message)
            text = decoded.note if decoded.tree is None else yaml_text(decoded.tree)
            texts.append(text)
            length += len(text)
        self.cut += length > SEARCHED
        return "\n".join(texts)
