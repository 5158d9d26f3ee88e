"""One call, whole."""

from typing import Any

from interpose.dump.decode.decode import Decoder
from interpose.dump.model.call import Assembler, CallEventKind
from interpose.dump.model.subject import Subjects
from interpose.dump.output.detail import detail_lines
from interpose.dump.output.json import flow_document
from interpose.testing.recordings import story_frames


def document(number: int) -> dict[str, Any]:
    """A call of the story."""
    assembler = Assembler(Subjects().identify)
    events = assembler.feed_all(story_frames())
    flows = [event.flow for event in events if event.kind is CallEventKind.END and event.flow is not None]
    found = next(flow for flow in [*flows, *assembler.open.values()] if flow.number == number)
    return flow_document(found, Decoder())


def test_a_call_is_shown_with_its_circumstances() -> None:
    """Who, when, how long, with what result."""
    lines = detail_lines(document(13))
    assert lines[0] == "Call 13: /runtime.v1.RuntimeService/CreateContainer"
    text = "\n".join(lines)
    for part in (
        "subject:      jobs/batch-7f9c:worker",
        "status:       NOT_FOUND: failed to get image",
        "took:         3.900 ms",
        "from:         client, process 812 of user 0",
        "metadata:     user-agent: grpc-go/1.72.1",
        "Request (1.2KiB, after 0.000 ms)",
    ):
        assert part in text
    assert "changed:" not in text


def test_what_is_not_in_the_recording_is_said() -> None:
    """The beginning of a call, or its end."""
    text = "\n".join(detail_lines(document(20) | {"continued": True, "lost": True}))
    assert "Z, beginning not recorded\n" in text
    assert "status:       end not recorded\n" in text


def test_a_changed_message_is_shown_as_a_difference() -> None:
    """The first form is whole, so that nothing is missing."""
    lines = detail_lines(document(7))
    at = next(place for place, line in enumerate(lines) if line.startswith("Changed in the request"))
    assert "  +       cpuset_cpus: 2-3" in lines[at:]
    assert "  changed:      koordlet, static" in lines
    reply = detail_lines(document(10))
    at = next(place for place, line in enumerate(reply) if line.startswith("Changed in the reply"))
    assert any(line.startswith("  -") and "cpuset_cpus" in line for line in reply[at:])


def test_bytes_that_differ_without_a_difference_are_shown_whole() -> None:
    """As when the order of fields was changed."""
    changed = document(7) | {"changed_by": []}
    changed["messages"][0]["body"] = changed["messages"][1]["body"]
    lines = detail_lines(changed)
    at = next(place for place, line in enumerate(lines) if line.startswith("Changed in the request"))
    assert "        cpuset_cpus: 2-3" in lines[at:]
    assert "  changed:      yes" in lines


def test_a_changed_message_whose_other_form_is_missing_is_shown_whole() -> None:
    """It was dropped, withheld, or has not come yet."""
    call = document(10)
    request, received, reply = call["messages"]
    for messages in ([received], [received, request], [received, reply | {"body": None}]):
        lines = detail_lines(call | {"messages": messages})
        at = lines.index(next(line for line in lines if line.startswith("Changed in the reply")))
        assert lines[at + 1] == "  status:"


def test_a_stream_has_numbered_replies() -> None:
    """Also if older ones were let go of; a call that is not over says so."""
    lines = detail_lines(document(3))
    assert [line.split(" (")[0] for line in lines if line.startswith("Reply")] == ["Reply #1", "Reply #2", "Reply #3"]
    assert "  status:       not over" in lines
    lost = detail_lines(document(3) | {"forgotten": 40})
    assert "  (40 older messages were not kept)" in lost
    assert [line.split(" (")[0] for line in lost if line.startswith("Reply")] == ["Reply #41", "Reply #42", "Reply #43"]


def test_what_was_not_decoded_has_a_note() -> None:
    """Instead of a body."""
    lines = detail_lines(document(19))
    assert any("not a known CRI method" in line for line in lines)


def test_parts_have_roles() -> None:
    """For colours."""
    roles = set()

    def style(text: str, role: str) -> str:
        roles.add(role)
        return text

    assert detail_lines(document(7), style) == detail_lines(document(7))
    assert roles == {"title", "dim", "good", ""}
