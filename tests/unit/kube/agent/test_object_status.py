"""What is written into the status of an object of a policy, and what is taken back."""

from typing import Any

import pytest

from interpose.kube.agent.config_choice import SelectedConfig
from interpose.kube.agent.config_kinds import ConfigSource
from interpose.kube.agent.node_document import SloState
from interpose.kube.agent.node_keys import STATUS
from interpose.kube.agent.object_status import ObjectStatusSink
from interpose.kube.agent.push_state import PushPhase, PushState
from interpose.kube.agent.report import report_of
from interpose.kube.agent.report_sinks import LAG, ReportInput, ReportWrite
from interpose.kube.client.api import Object, PatchKind

NODE: Object = {"metadata": {"name": "n"}}
DEFAULT = ConfigSource("BalloonsPolicy", "ns", "default")
GROUP = ConfigSource("BalloonsPolicy", "ns", "group.g")
MAP = ConfigSource("ConfigMap", "ns", "cfg")
SUCCESS = {"status": "Success", "generation": 4, "errors": "", "timestamp": "1970-01-01T00:00:09Z"}


def there(version: str = "1", **nodes: Any) -> Object:
    """An object with entries of nodes."""
    return {"metadata": {"resourceVersion": version}, "status": {"nodes": nodes}}


def view(
    objects: dict[ConfigSource, Object],
    *problems: str,
    chosen: ConfigSource | None = DEFAULT,
    phase: PushPhase = PushPhase.APPLIED,
    generation: int = 4,
    node: Object = NODE,
) -> ReportInput:
    """The relay has, or has not, what an object says."""
    config = None
    if chosen is not None:
        config = SelectedConfig(source=str(chosen), version="1", data={}, generation=generation)
    state = PushState(phase=phase, chosen=config, problems=problems, since=9.0)
    return ReportInput(node, report_of(state), SloState(), objects)


def looking(first: ReportInput) -> ObjectStatusSink:
    """A sink that has seen this."""
    made = ObjectStatusSink("n")
    made.look(first)
    return made


def written(sink: ObjectStatusSink, seen: ReportInput, now: float = 0.0) -> tuple[ConfigSource | None, Any]:
    """Where something is to be written, and what of this node."""
    write = sink.next(seen, now, 0.0)
    assert write is not None
    assert (write.patch, write.subresource) == (PatchKind.MERGE, "status")
    assert list(write.body["status"]["nodes"]) == ["n"]
    return write.source, write.body["status"]["nodes"]["n"]


def test_what_is_in_force_is_a_success_of_its_generation() -> None:
    """Without errors: an old text of them would stay otherwise, as patches are merged."""
    seen = view({DEFAULT: there(other={"status": "Failure"})})
    assert written(looking(seen), seen) == (DEFAULT, SUCCESS)


@pytest.mark.parametrize(
    ("phase", "errors"),
    [
        (PushPhase.REJECTED, "the configuration was rejected: a is wrong; b is wrong"),
        (PushPhase.UNREACHABLE, "the relay is not reachable: a is wrong; b is wrong"),
    ],
)
def test_what_is_not_in_force_is_a_failure(phase: PushPhase, errors: str) -> None:
    """With everything that is wrong."""
    seen = view({DEFAULT: there(n=SUCCESS)}, "a is wrong", "b is wrong", phase=phase)
    source, entry = written(looking(seen), seen)
    assert (source, entry["status"], entry["errors"]) == (DEFAULT, "Failure", errors)


@pytest.mark.parametrize(
    ("shown", "generation"),
    [(SUCCESS | {"timestamp": "2026-01-01T00:00:00Z"}, 4), ({"status": "Success", "generation": 4}, 4)],
)
def test_what_the_object_shows_is_not_written_again(shown: Any, generation: int) -> None:
    """Another time is no news, nor is a text of errors that is not there."""
    seen = view({DEFAULT: there(n=shown)}, generation=generation)
    assert looking(seen).next(seen, 0.0, 0.0) is None


def test_another_generation_is_written() -> None:
    """Also if it says the same: whoever waits for it would wait for ever."""
    seen = view({DEFAULT: there(n=SUCCESS)}, generation=5)
    assert written(looking(seen), seen)[1]["generation"] == 5


@pytest.mark.parametrize("phase", [PushPhase.WAITING, PushPhase.KEPT, PushPhase.FORBIDDEN])
def test_while_nobody_knows_nothing_is_written(phase: PushPhase) -> None:
    """What the cluster wants, or what the relay has: the entries stay."""
    seen = view({DEFAULT: there(n=SUCCESS), GROUP: there(n=SUCCESS)}, chosen=None, phase=phase)
    assert looking(seen).next(seen, 0.0, 0.0) is None


@pytest.mark.parametrize("chosen", [GROUP, MAP, None])
def test_the_entry_goes_where_the_node_does_not_go_by_the_object(chosen: ConfigSource | None) -> None:
    """It goes by another object, by a ConfigMap, or by its own settings. The entries of others are not touched."""
    phase = PushPhase.APPLIED if chosen is not None else PushPhase.WITHDRAWN
    seen = view({DEFAULT: there(n=SUCCESS, other=SUCCESS)}, chosen=chosen, phase=phase)
    assert written(looking(seen), seen) == (DEFAULT, None)
    seen = view({DEFAULT: there(other=SUCCESS)}, chosen=chosen, phase=phase)
    assert looking(seen).next(seen, 0.0, 0.0) is None


def test_an_object_that_is_not_there_gets_no_entry() -> None:
    """It was deleted a moment ago, and still is in force."""
    seen = view({})
    assert looking(seen).next(seen, 0.0, 0.0) is None


def test_the_object_of_the_group_before_is_not_seen_any_more() -> None:
    """The entry that this sink wrote there is taken back all the same, once."""
    seen = view({GROUP: there()}, chosen=GROUP)
    sink = looking(seen)
    write = sink.next(seen, 0.0, 0.0)
    assert write is not None
    sink.done(seen, write, 0.0)
    after = view({DEFAULT: there(n=SUCCESS)})
    assert written(sink, after, LAG) == (GROUP, None)
    taken = sink.next(after, LAG, 0.0)
    assert taken is not None
    sink.done(after, taken, LAG)
    assert sink.next(after, LAG, 0.0) is None


def noting(source: str) -> Object:
    """A Node with the note of an agent before this one."""
    return {"metadata": {"name": "n", "annotations": {STATUS: f'{{"source": "{source}"}}'}}}


def test_the_object_that_the_agent_before_went_by_is_noted_on_the_node() -> None:
    """It is noted once: later it is this agent that writes the note."""
    sink = looking(view({}, node=noting("BalloonsPolicy ns/group.g")))
    sink.look(view({}, node=noting("BalloonsPolicy ns/group.h")))
    assert written(sink, view({DEFAULT: there(n=SUCCESS)})) == (GROUP, None)


@pytest.mark.parametrize("source", ["ns/cfg", "", "what"])
def test_a_note_about_something_else_is_passed_over(source: str) -> None:
    """ConfigMaps have no status."""
    seen = view({DEFAULT: there(n=SUCCESS)}, node=noting(source))
    assert looking(seen).next(seen, 0.0, 0.0) is None


def test_what_was_written_may_take_its_time_to_be_seen() -> None:
    """It is written again only when the object is another one and still does not show it."""
    before = view({DEFAULT: there("1")})
    sink = looking(before)
    assert sink.again_at(before, 0.0) is None
    write = sink.next(before, 0.0, 0.0)
    assert write is not None
    assert sink.ready_at(before, 0.0) == 0.0
    sink.done(before, write, 0.0)
    assert sink.next(before, LAG + 1.0, 0.0) is None  # nothing new was seen of the object
    assert sink.again_at(before, 0.0) is None
    others = view({DEFAULT: there("2", other=SUCCESS)})
    assert sink.next(others, 1.0, 0.0) is None
    assert sink.again_at(others, 1.0) == LAG
    assert written(sink, others, LAG) == (DEFAULT, SUCCESS)
    newer = view({DEFAULT: there("1")}, generation=5)
    assert written(sink, newer)[1]["generation"] == 5


def test_a_write_of_something_else_is_a_mistake() -> None:
    """It belongs to another sink."""
    with pytest.raises(ValueError, match="belongs to an object"):
        looking(view({})).done(view({}), ReportWrite(body={}), 0.0)
