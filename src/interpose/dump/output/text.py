"""The text dump: what passes, as lines for a log or a file, in the form that cri-resmgr gave them.

    (intercepted) REQUEST StopContainer
        StopContainer => container_id: 1f3d
        StopContainer => timeout: 30
    (intercepted) REPLY StopContainer <= {}

Beyond that form, lines with `~>` and `~<` show what was changed on the way to the runtime and back, the messages of a
stream have numbers, and what was not seen is said. Pure: events in, lines out; times are those of the frames. What is
held is bounded: a counter for each method that is counted, and one for each call in flight that has replied.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final, Literal, NamedTuple

from interpose.config.dump_rules import DumpTarget, Rules
from interpose.dump.decode.api import MessageDecoder
from interpose.dump.decode.diff import line_diff
from interpose.dump.decode.yaml import yaml_lines
from interpose.dump.model.call import KEPT_CALLS, CallEvent, CallEventKind, Flow
from interpose.dump.model.frames import Dropped, End, Message, MessageSide
from interpose.dump.model.grpc_codes import code_name

Level = Literal["info", "warning"]

STAMP_WIDTH: Final = 24
_SECOND: Final = 1_000_000_000
# Not those of the locale.
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# Methods that are counted: a caller may make up names, the counters of the oldest are let go of.
_KEPT_COUNTERS: Final = 1000
_SAME_CONTENT: Final = "# the bytes differ, the contents do not"
_NOT_SEEN: Final = "# the message was not seen"


class DumpLine(NamedTuple):
    """A line of the dump. `more` is what only a file gets."""

    stamp: str
    text: str
    level: Level = "info"
    more: str = ""

    @property
    def in_file(self) -> str:
        """The line of a file; texts that begin with blanks have enough of them."""
        blank = "" if self.text.startswith(" ") else " "
        return f"[{self.stamp}]{blank}{self.text}{self.more}"


@dataclass(slots=True, kw_only=True)
class _Counter:
    """Calls of one method, in all and before the period began."""

    began: int
    calls: int = 1
    before: int = 0


# A member of an enumeration takes longer to look up than all else that is done with it here.
_BEGIN: Final = CallEventKind.BEGIN
_FULL: Final = DumpTarget.FULL
_SHORT: Final = DumpTarget.SHORT


class TextDump:
    """Makes lines of what happens to calls, as the rules say.

    `count_period` is in seconds. With `qualify` a line begins with the pod and container it is about. Times are those
    of `zone`; None is where we are.
    """

    def __init__(
        self,
        rules: Rules,
        decoder: MessageDecoder,
        *,
        count_period: float = 60.0,
        qualify: bool = False,
        zone: tzinfo | None = None,
    ) -> None:
        self._rules = rules
        self._decoder = decoder
        self._count_period = int(count_period * _SECOND)
        self._qualify = qualify
        self._zone = zone
        self._counters: dict[str, _Counter] = {}
        self._targets: dict[str, DumpTarget] = {}  # of names that came before
        self._replies: dict[int, int] = {}  # how many a call in flight has had

    def lines(self, event: CallEvent) -> list[DumpLine]:
        """What there is to write about an event."""
        frame, flow = event.frame, event.flow
        if isinstance(frame, Dropped) and flow is None:
            return [DumpLine(level="warning", stamp=self._wall(frame.time), text=_dropped(frame.frames))]
        if flow is None:
            return []
        name = flow.name
        target = self._targets.get(name) or self._target(name)
        if isinstance(frame, Dropped):
            return self._qualified(flow, self._left_out(flow, frame.frames)) if target is _FULL else []
        if event.kind is _BEGIN:
            self._replies.pop(flow.number, None)  # of another process
            return self._counted(flow) if target is DumpTarget.COUNT else []
        lines: list[DumpLine] = []
        if isinstance(frame, Message) and target is _FULL:
            lines = self._message(flow, frame)
        elif isinstance(frame, End):
            replies = self._replies.pop(flow.number, 0)
            if target is _FULL and flow.http is not None and not flow.messages:
                target = _SHORT  # nothing but its name and its end is known
            if target is _FULL:
                lines = self._end(flow, frame, replies)
            elif target is _SHORT:
                lines = [_short(flow, frame)]
        return self._qualified(flow, lines)

    def _target(self, name: str) -> DumpTarget:
        if len(self._targets) >= _KEPT_COUNTERS:
            self._targets.clear()
        target = self._targets[name] = self._rules.target(name)
        return target

    # -- calls that are dumped in full

    def _message(self, flow: Flow, message: Message) -> list[DumpLine]:
        stamp = self._wall(flow.time + message.at)
        if message.side is MessageSide.REQUEST:
            return _block(
                stamp, f"({_kind(flow)}) REQUEST {_name(flow)}", f"{_name(flow)} =>", self._body(flow, message)
            )
        if message.side is MessageSide.FORWARDED:
            asked = _last(flow.messages, MessageSide.REQUEST)
            return self._change(flow, asked, message, stamp, "REQUEST", "~>")
        if message.side is MessageSide.RECEIVED:
            return []  # shown with the reply it became
        count = self._replied(flow)
        lines: list[DumpLine] = []
        if count == 2 and not _is_stream(flow):
            # A method we do not know turns out to be a stream: its first reply has waited for the end of the call.
            for first in flow.messages_of(MessageSide.REPLY)[:-1][:1]:
                lines += self._numbered(flow, first, 1)
        if count > 1 or _is_stream(flow):
            lines += self._numbered(flow, message, count)
        return lines

    def _end(self, flow: Flow, end: End, replies: int) -> list[DumpLine]:
        stamp = _latency(end.elapsed)
        names = f" changed by {_escape(', '.join(end.changed_by))}" if end.changed_by else ""
        received, reply = (_last(flow.messages, side) for side in (MessageSide.RECEIVED, MessageSide.REPLY))
        stream = replies > 1 or _is_stream(flow)
        if flow.failed:
            lines: list[DumpLine] = []
            if received is not None and not replies:
                body = self._body(flow, received)
                lines += _block(stamp, f"(withheld) REPLY {_name(flow)}", f"{_name(flow)} <=", body)
            after = f" after {_messages(replies)}" if replies else ""
            head = f"({_kind(flow)}) FAILED {_name(flow)}{after}{names}"
            said = f"{code_name(end.code)}: {end.message}" if end.message else code_name(end.code)
            texts = [head, *(f"  {_name(flow)} <= {_escape(line)}" for line in said.splitlines())]
            return lines + [DumpLine(level="warning", stamp=stamp, text=text) for text in texts]
        if stream:
            text = f"({_kind(flow)}) CLOSED {_name(flow)} after {_messages(replies)}{names}"
            return [DumpLine(stamp=stamp, text=text)]
        return self._reply(flow, received, reply, stamp, names)

    def _numbered(self, flow: Flow, message: Message, number: int) -> list[DumpLine]:
        """A message of a stream."""
        before = _before(flow.messages, message)
        received = before if before is not None and before.side is MessageSide.RECEIVED else None
        return self._reply(flow, received, message, _latency(message.at), f" #{number}")

    def _reply(
        self, flow: Flow, received: Message | None, reply: Message | None, stamp: str, suffix: str
    ) -> list[DumpLine]:
        changed = self._change(flow, received, reply, stamp, "REPLY", "~<") if received and reply else []
        body = self._body(flow, reply) if reply else [_NOT_SEEN]
        size = sum(len(line.encode()) + 1 for line in body if not line.startswith("#"))
        head = f"({_kind(flow)}) REPLY {_name(flow)}{suffix}"
        return changed + _block(stamp, head, f"{_name(flow)} <=", body, more=f" ({size} bytes as yaml)" if size else "")

    def _change(
        self, flow: Flow, before: Message | None, after: Message, stamp: str, word: str, arrow: str
    ) -> list[DumpLine]:
        old = self._body(flow, before) if before else []
        texts = line_diff(old, self._body(flow, after)) or [_SAME_CONTENT]
        head = DumpLine(stamp=stamp, text=f"(relayed) {word} {_name(flow)}")
        return [head, *(DumpLine(stamp=stamp, text=f"    {_name(flow)} {arrow} {text}") for text in texts)]

    def _body(self, flow: Flow, message: Message) -> list[str]:
        """A message as YAML; what there is to say about it besides as comments."""
        decoded = self._decoder.message(flow, message)
        lines = [] if decoded.tree is None else yaml_lines(decoded.tree)
        return [*lines, *(f"# {_escape(line)}" for line in decoded.note.splitlines())] or ["# not decoded"]

    def _left_out(self, flow: Flow, count: int) -> list[DumpLine]:
        """So many messages of a stream come no more: it was too long to keep them."""
        self._replied(flow, count)
        text = f"({_kind(flow)}) REPLY {_name(flow)} <= # {_messages(count)} left out, too many to keep"
        return [DumpLine(stamp=self._wall(flow.time), text=text)]

    def _replied(self, flow: Flow, more: int = 1) -> int:
        count = self._replies.pop(flow.number, 0) + more
        if len(self._replies) >= KEPT_CALLS:
            self._replies.pop(next(iter(self._replies)))
        self._replies[flow.number] = count
        return count

    # -- calls that are counted

    def _counted(self, flow: Flow) -> list[DumpLine]:
        counter = self._counters.get(flow.method_name)
        if counter is None:
            if len(self._counters) >= _KEPT_COUNTERS:
                self._counters.pop(next(iter(self._counters)))
            self._counters[flow.method_name] = _Counter(began=flow.time)
            return []
        counter.calls += 1
        age = flow.time - counter.began
        if age <= self._count_period:
            return []
        count = counter.calls - counter.before
        rate = f"{count / (age / _SECOND):.2f}/s"
        counter.began, counter.before = flow.time, counter.calls
        text = f"({_kind(flow)}) REQUEST: {_escape(flow.method_name)} #{counter.calls}, {count} total, {rate} calls"
        return [DumpLine(stamp=self._wall(flow.time), text=text)]

    # -- forms

    def _qualified(self, flow: Flow, lines: list[DumpLine]) -> list[DumpLine]:
        if not self._qualify or not flow.subject:
            return lines
        front = f"<{_escape(str(flow.subject))}> "
        return [DumpLine(level=line.level, stamp=line.stamp, text=front + line.text, more=line.more) for line in lines]

    def _wall(self, time: int) -> str:
        seconds, rest = divmod(time, _SECOND)
        when = datetime.fromtimestamp(seconds, self._zone)
        month = _MONTHS[when.month - 1]
        return f"{when.year:04}-{month}-{when.day:02} {when:%H:%M:%S}.{rest // 1_000_000:03}"


def _short(flow: Flow, end: End) -> DumpLine:
    """A call by its name; an HTTP call that failed with its status, which is all that is known."""
    level: Level = "warning" if flow.failed else "info"
    word = "FAILED" if flow.failed else "REQUEST"
    said = f" <= {_escape(end.message)}" if flow.failed and flow.http is not None and end.message else ""
    return DumpLine(level=level, stamp=_latency(end.elapsed), text=f"({_kind(flow)}) {word} {_name(flow)}{said}")


def _block(stamp: str, head: str, lead: str, body: Sequence[str], *, more: str = "") -> list[DumpLine]:
    """A message: on one line with its head if it is one, else below it."""
    if len(body) == 1:
        return [DumpLine(stamp=stamp, text=f"{head} {lead[-2:]} {body[0]}", more=more)]
    lines = [DumpLine(stamp=stamp, text=head, more=more)]
    return lines + [DumpLine(stamp=stamp, text=f"    {lead} {line}") for line in body]


def _latency(elapsed: int) -> str:
    seconds, rest = divmod((elapsed + 500) // 1000, 1_000_000)
    return f"+{seconds}.{rest:06}".rjust(STAMP_WIDTH)


def _kind(flow: Flow) -> str:
    if flow.originated:
        return f"originated by {_escape(flow.origin)}"
    return "intercepted" if flow.intercepted else "passthrough"


def _name(flow: Flow) -> str:
    return _escape(flow.name)


def _is_stream(flow: Flow) -> bool:
    return flow.method is not None and flow.method.server_streaming


def _last(messages: Iterable[Message], side: MessageSide) -> Message | None:
    found = None
    for message in messages:
        found = message if message.side is side else found
    return found


def _before(messages: Sequence[Message], message: Message) -> Message | None:
    """What came before a message; looked for from the end, where it mostly is."""
    for place in range(len(messages) - 1, 0, -1):
        if messages[place] is message:
            return messages[place - 1]
    return None


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"


def _dropped(frames: int) -> str:
    return f"{_messages(frames)} {'was' if frames == 1 else 'were'} not seen, the dump was too slow"


def _escape(text: str) -> str:
    """Text of others on a line of ours: what a terminal would obey is escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
