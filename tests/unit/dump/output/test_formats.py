"""The forms in which calls are given out."""

import json
from collections.abc import Iterator

import pytest
import yaml

from interpose.dump.decode.api import DecodedMessage
from interpose.dump.decode.decode import Decoder
from interpose.dump.filter.terms import SEARCHED
from interpose.dump.model.call import Assembler, CallEventKind, Flow
from interpose.dump.model.frames import Message, MessageSide
from interpose.dump.model.subject import Subjects
from interpose.dump.output.formats import OUTPUTS, FlowTexts, OutputContext
from interpose.dump.output.json import flow_document
from interpose.testing.recordings import story_frames

VIEW = OutputContext(decoder=Decoder(), title="a.crirec", facts={"host": "node-1"})


def story() -> list[Flow]:
    """The calls of the story."""
    assembler = Assembler(Subjects().identify)
    events = assembler.feed_all(story_frames())
    return [event.flow for event in events if event.kind is CallEventKind.END and event.flow is not None]


def shown(form: str, flows: list[Flow]) -> str:
    """A form as a whole."""
    return "".join(OUTPUTS[form](flows, VIEW))


def test_yaml_is_a_document_per_call() -> None:
    """A YAML parser reads what the documents say."""
    flows = story()
    assert list(yaml.safe_load_all(shown("yaml", flows))) == [flow_document(flow, VIEW.decoder) for flow in flows]


def test_jsonl_is_a_document_per_line() -> None:
    """In ASCII."""
    flows = story()
    lines = shown("jsonl", flows).splitlines()
    assert [json.loads(line) for line in lines] == [flow_document(flow, VIEW.decoder) for flow in flows]


@pytest.mark.parametrize(
    ("form", "beginning", "inside"),
    [
        ("list", "TIME (UTC)", "CreateContainer"),
        ("detail", "Call 1: /runtime.v1", "\n\nCall 2: "),
        ("har", '{"log"', '"_number": 7'),
        ("html", "<!doctype html>", "CreateContainer"),
        ("latency", "METHOD", "PullImage"),
        ("svg", "<svg ", "PullImage"),
    ],
)
def test_each_form_begins_as_its_readers_expect(form: str, beginning: str, inside: str) -> None:
    """And holds the calls."""
    text = shown(form, story())
    assert text.lower().startswith(beginning.lower())
    assert inside in text


@pytest.mark.parametrize("form", ["list", "detail", "yaml", "jsonl", "har", "html"])
def test_calls_are_taken_one_by_one(form: str) -> None:
    """So that a recording of any size takes no memory: when a piece comes, not all calls have been taken."""
    taken = 0
    flows = story() * 100

    def taking() -> Iterator[Flow]:
        nonlocal taken
        for flow in flows:
            taken += 1
            yield flow

    pieces = OUTPUTS[form](taking(), VIEW)
    sizes = [taken for _piece in pieces]
    assert len(sizes) > 5
    assert sizes[len(sizes) // 2] < len(flows)


class Echo:
    """Decodes a message to as much text as its size says, or to nothing."""

    def message(self, flow: Flow, message: Message) -> DecodedMessage:
        """The size counts."""
        if message.size == 0:
            return DecodedMessage(tree=None, note="withheld")
        return DecodedMessage(tree={message.side.name.lower(): "x" * message.size})


def with_sizes(*sizes: tuple[MessageSide, int]) -> Flow:
    """A call with messages of these sizes."""
    flow = story()[0]
    flow.messages = [Message(number=1, at=0, side=side, size=size, body=b"") for side, size in sizes]
    return flow


def test_filters_search_in_yaml() -> None:
    """Of the sides they want; where there is no message, in the note."""
    texts = FlowTexts(Echo())
    flow = with_sizes((MessageSide.REQUEST, 3), (MessageSide.REPLY, 0))
    assert texts(flow, (MessageSide.REQUEST,)) == "request: xxx\n"
    assert texts(flow, (MessageSide.REQUEST, MessageSide.REPLY)) == "request: xxx\n\nwithheld"
    assert texts.cut == 0


def test_long_texts_are_cut_and_counted() -> None:
    """No more messages are decoded than are searched."""
    texts = FlowTexts(Echo())
    flow = with_sizes(*[(MessageSide.REPLY, SEARCHED // 2)] * 5)
    assert SEARCHED < len(texts(flow, (MessageSide.REPLY,))) < 2 * SEARCHED
    assert texts.cut == 1
