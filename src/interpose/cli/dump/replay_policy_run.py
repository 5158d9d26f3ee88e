"""Replays a recording against policies. The recording is read once, whatever the number of policies.

The frames of `dump` become the events of `resmgr.whatif` here: neither of the two knows the other.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from interpose.cli.policy.make import make_policy
from interpose.cli.policy.topology import load_machine
from interpose.cli.render.machine import summary
from interpose.cli.render.text import WIDTH
from interpose.cli.render.whatif import occupancy_text, whatif_text
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.names import NAMES
from interpose.cri.store.requested import NOT_REQUESTED
from interpose.dump.model.call import Assembler, Flow
from interpose.dump.model.frames import DamagedFrameError, Dropped, End, Frame, Message, MessageSide, Packing
from interpose.dump.recording.reader import open_recording
from interpose.resmgr.whatif.events import CallRecord, MessageEvent, ReplyEvent, RequestEvent
from interpose.resmgr.whatif.replay import REPLAYED_METHODS, PolicyReplay
from interpose.resmgr.whatif.report import outcome_document

_AMENDS: Final = tuple(part.decode() for part in NOT_REQUESTED)


class RecordedEventReader:
    """Turns the frames of a recording into what happened, in the order in which it did."""

    def __init__(self) -> None:
        self._dropped = 0
        self._absent = 0

    def notes(self) -> list[str]:
        """What is missing, in words."""
        notes = []
        if self._dropped:
            notes.append(f"Frames that were lost while it was recorded, so that this is approximate: {self._dropped}")
        if self._absent:
            notes.append(f"Messages that matter and were not kept in the recording: {self._absent}")
        return notes

    def events(self, frames: Iterable[Frame]) -> Iterator[CallRecord]:
        """Everything that tells something about pods and containers."""
        assembler = Assembler()
        for frame in frames:
            event = assembler.feed(frame)
            if isinstance(frame, Dropped):
                self._dropped += frame.frames
            flow = event.flow
            if flow is None or flow.method is None or flow.name not in REPLAYED_METHODS:
                continue
            if isinstance(frame, Message):
                yield from self._message(flow, frame)
            elif isinstance(frame, End):
                yield self._end(flow, frame)

    def _message(self, flow: Flow, message: Message) -> Iterator[CallRecord]:
        if message.side is MessageSide.REQUEST:
            if (asked := self._request(flow, message)) is not None:
                yield asked
        elif flow.method is not None and flow.method.server_streaming and message.side.is_reply:
            data = self._data(message)
            if data is not None:
                yield MessageEvent(number=flow.number, time_ns=flow.time + message.at, reply=data)

    def _request(self, flow: Flow, message: Message) -> RequestEvent | None:
        data = self._data(message)
        if data is None:
            return None
        return RequestEvent(
            number=flow.number,
            time_ns=flow.time + message.at,
            method=flow.name,
            request=data,
            origin=flow.origin,
            amends=_AMENDS in flow.metadata,
        )

    def _end(self, flow: Flow, end: End) -> ReplyEvent:
        # What the runtime itself said counts; a caller may be shown something else.
        replies = flow.messages_of(MessageSide.RECEIVED) or flow.messages_of(MessageSide.REPLY)
        sent = flow.messages_of(MessageSide.FORWARDED)
        streaming = flow.method is not None and flow.method.server_streaming
        reply = self._data(replies[-1]) if replies and not streaming else None
        return ReplyEvent(
            number=flow.number,
            time_ns=flow.time + end.elapsed,
            reply=reply,
            code=end.code,
            message=end.message,
            forwarded=self._data(sent[-1]) if sent else None,
        )

    def _data(self, message: Message) -> bytes | None:
        """The bytes of a message; None if it was not kept, or cannot be unpacked."""
        try:
            if message.packing is not Packing.ABSENT:
                return message.data
        except DamagedFrameError:
            pass
        self._absent += 1
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfRequest:
    """Which policies on which machine; `details` are those of `policy_flags`."""

    policies: tuple[str, ...]
    topology: str | None
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfResult:
    """What they would have decided."""

    document: Mapping[str, Any]
    online: CpuSet

    @property
    def refused(self) -> bool:
        """Whether one of them has refused anything."""
        summaries = [policy["summary"] for policy in self.document["policies"]]
        return any(summary["refused"] or summary["resizes_refused"] for summary in summaries)

    def json(self) -> str:
        """The document as JSON for scripts."""
        return json.dumps(self.document, indent=2)

    def text(self, *, verbose: bool, width: int | None) -> str:
        """The document as a report for people."""
        return whatif_text(self.document, verbose=verbose, width=width or WIDTH)

    def pictures(self, *, width: int | None, ascii_only: bool) -> str:
        """Who had which CPUs alone, along time; one picture for each policy."""
        drawn = []
        for policy in self.document["policies"]:
            span = policy["summary"]["began_ns"], policy["summary"]["ended_ns"]
            title = f"Policy {policy['policy']}: who had which CPUs alone, times in UTC"
            picture = occupancy_text(policy["stays"], self.online, *span, width=width or WIDTH, ascii_only=ascii_only)
            drawn.append(f"{title}\n{picture}")
        return "\n\n".join(drawn)


def replay_policies(paths: Sequence[str], wanted: WhatIfRequest, *, alone: bool = False) -> WhatIfResult:
    """Let policies decide about the calls of recordings. ConfigError as for the relay."""
    machine = load_machine(wanted.topology)
    memory = sum(node.memory_bytes for node in machine.nodes)
    names: list[str | None] = list(dict.fromkeys(NAMES[name] for name in wanted.policies)) or [None]
    policies = [make_policy(machine, name, **wanted.details) for name in names]
    replays = [PolicyReplay(policy, capacity=memory) for policy in policies]
    reader = RecordedEventReader()
    with open_recording(paths, alone=alone) as recording:
        for event in reader.events(recording.frames()):
            for replay in replays:
                replay.feed(event)
        for damage in recording.damage:
            click.echo(f"warning: {damage}", err=True)
    document = {
        "recording": ", ".join(paths),
        "machine": f"{machine.name}: {summary(machine)}" if machine.name else summary(machine),
        "notes": [*reader.notes(), *(f"policy {policy.name}: {note}" for policy in policies for note in policy.notes)],
        "policies": [outcome_document(replay.policy.name, replay.outcome()) for replay in replays],
    }
    return WhatIfResult(document=document, online=machine.online)
