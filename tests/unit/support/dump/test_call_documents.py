"""Documents written by hand are like those that are made of frames."""

import pytest

from interpose.dump.decode.api import DecodedMessage
from interpose.dump.model.call import Flow
from interpose.dump.model.frames import Flags, Message, MessageSide
from interpose.dump.output.json import flow_document
from tests.support.dump.call_documents import document, many_documents, message, sample_documents


class Blind:
    """Decodes nothing."""

    def message(self, flow: Flow, message: Message) -> DecodedMessage:
        """Of any call."""
        return DecodedMessage(tree={}, note="")


def test_they_have_the_keys_of_real_ones() -> None:
    """In the same order."""
    real = flow_document(
        Flow(
            number=1,
            time=0,
            path="/runtime.v1.RuntimeService/Version",
            origin="client",
            pid=0,
            uid=0,
            flags=Flags.NONE,
            metadata=(),
            messages=[Message(number=1, at=0, side=MessageSide.REQUEST, size=0, body=b"")],
        ),
        Blind(),
    )

    assert list(document(1, "Version")) == list(real)
    assert list(message("request", {})) == list(real["messages"][0])


def test_a_key_that_no_document_has_is_refused() -> None:
    """A test that misspells it would test nothing."""
    with pytest.raises(KeyError, match="durations"):
        document(1, "Version", durations=3)


def test_the_sample_has_something_of_everything() -> None:
    """What pages and lists treat differently."""
    sample = sample_documents()

    assert any(one["changed"] and one["request_diff"] for one in sample)
    assert any(one["code"] for one in sample)
    assert any(one["status"] == "" for one in sample)
    assert {one["kind"] for one in sample} == {"passthrough", "intercepted", "originated"}
    assert len({one["pod"] for one in sample if one["pod"]}) == 2


def test_many_are_numbered_and_in_order() -> None:
    """Of a few dozen pods."""
    many = list(many_documents(100))

    assert [one["number"] for one in many] == list(range(1, 101))
    assert [one["time_ns"] for one in many] == sorted(one["time_ns"] for one in many)
    assert "web-7d9f6c5b8-x2x4q-2" in {one["pod"] for one in many}
