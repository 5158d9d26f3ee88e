"""Finding the recorded answer to a request.

Best first: a call with the same bytes, one that means the same, one about the same pod or container, and, for calls
that are about no particular one, the next that nobody asked for yet; a list is narrowed to what was asked. Requests
that come again walk through the recorded answers in their order and then get the last one again. What made a pod or
container is given to one subject only: two pods must not have the same id.

A recording stands for the runtime, so requests are known by what the runtime got as well as by what the caller sent,
and answers are those of the runtime, before anybody changed them.

Pure.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from interpose.core.model.kubernetes_names import POD_UID, RESTART_COUNT
from interpose.cri.methods import METHODS, Carries, Method
from interpose.dump.model.call import Flow
from interpose.dump.model.frames import MessageSide
from interpose.dump.replay.adapt import uids
from interpose.dump.replay.id_map import CREATING_METHODS, IdMap, Reference, ReferenceKind, references
from interpose.dump.replay.selection import RecordedCall
from interpose.dump.replay.visit import Parse, body_of, parts, type_name


def _container(wanted: Any, container: Any) -> bool:
    return (
        container.id.startswith(wanted.id)
        and (not wanted.HasField("state") or container.state == wanted.state.state)
        and container.pod_sandbox_id.startswith(wanted.pod_sandbox_id)
        and _labelled(wanted, container)
    )


def _pod(wanted: Any, pod: Any) -> bool:
    return (
        pod.id.startswith(wanted.id)
        and (not wanted.HasField("state") or pod.state == wanted.state.state)
        and _labelled(wanted, pod)
    )


def _image(wanted: Any, image: Any) -> bool:
    name = wanted.image.image
    return not name or name == image.id or name in image.repo_tags or name in image.repo_digests


def _labelled(wanted: Any, item: Any) -> bool:
    return all(item.labels.get(key) == value for key, value in wanted.label_selector.items())


# Where the list is in a reply, and who may stay.
NARROWED: Final[Mapping[str, tuple[str, Callable[[Any, Any], bool]]]] = MappingProxyType(
    {
        "ListContainers": ("containers", _container),
        "ListPodSandbox": ("items", _pod),
        "ListImages": ("images", _image),
    }
)


def narrow(name: str, request: Any, reply: Any) -> None:
    """Take out of a reply what the filter of the request does not let pass."""
    field, fits = NARROWED[name]
    items = getattr(reply, field)
    for item in [item for item in items if not fits(request.filter, item)]:
        items.remove(item)


# Parts of a configuration that say when and where, not what.
_VOLATILE: Final = {
    "PodSandboxMetadata": ("uid", "attempt"),
    "ContainerMetadata": ("attempt",),
    "PodSandboxConfig": ("log_directory",),
    "ContainerConfig": ("log_path",),
    "LinuxPodSandboxConfig": ("cgroup_parent",),
    "AuthConfig": ("username", "password", "auth", "identity_token", "registry_token"),
    "CreateContainerRequest": ("pod_sandbox_id",),
    "NamespaceOption": ("target_id",),
}
_VOLATILE_LABELS: Final = (
    POD_UID,
    RESTART_COUNT,
    "kubernetes.io/config.seen",
    "interpose/requested",
    "interpose/grant",
)
_MAPS: Final = ("labels", "annotations")
_SOMEWHERE: Final = "*"


def request_key(message: Any, method: Method) -> bytes:
    """What two requests share that mean the same. The message is changed on the way.

    A request without a configuration is nothing but ids, which stay.
    """
    if Carries.CFG in method.carries:
        known = uids(message)
        for part in parts(message):
            for name in _VOLATILE.get(type_name(part), ()):
                part.ClearField(name)
            for name in _MAPS:
                for key in _VOLATILE_LABELS:
                    getattr(part, name, {}).pop(key, None)
            if type_name(part) == "Mount":
                for uid in known:
                    part.host_path = part.host_path.replace(uid, _SOMEWHERE)
    if Carries.FLT in method.carries and not message.filter.ListFields():
        message.ClearField("filter")  # an empty one lets everything pass, as none does
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def request_subjects(message: Any) -> tuple[Reference | str, ...]:
    """Whom a request is about: names if it has a configuration, else ids, the narrowest first; empty if nobody."""
    names = [_named(part) for part in parts(message)]
    found = tuple(name for name in names if name)
    if found:
        return found
    ids = references(message)
    for kind in (ReferenceKind.CONTAINER, ReferenceKind.POD, ReferenceKind.IMAGE):
        chosen = tuple(reference for reference in ids if reference.kind is kind and reference.id)
        if chosen:
            return chosen
    return ()


def _named(part: Any) -> str:
    name = type_name(part)
    if name == "PodSandboxMetadata":
        return f"pod {part.namespace}/{part.name}"
    return f"container {part.name}" if name == "ContainerMetadata" else ""


class Match(StrEnum):
    """How far a request may be from the recorded one."""

    BEST = "best"  # as near as there is one
    EXACT = "exact"  # the same bytes
    SUBJECT = "subject"  # the same pod or container at least
    ORDER = "order"  # the next recorded answer of the method, whatever was asked


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedReply:
    """One message of an answer, and when it came."""

    at: int  # nanoseconds since the call began
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A recorded answer. `open`: the recording does not show its end."""

    number: int
    replies: tuple[RecordedReply, ...]
    elapsed: int
    code: int
    message: str
    open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingAnswer:
    """There is no answer, and why. `unknown`: the method was never recorded. `used_up`: others got what there is."""

    unknown: bool
    text: str
    used_up: bool = False


# The keys of a request, nearest first, and which of them count.
_BYTES, _MEANING, _SUBJECT, _ANY = range(4)
_KEYS: Final = {
    Match.EXACT: (_BYTES,),
    Match.SUBJECT: (_BYTES, _MEANING, _SUBJECT),
    Match.BEST: (_BYTES, _MEANING, _SUBJECT, _ANY),
    Match.ORDER: (_ANY,),
}


class _RecordedAnswer:
    """An answer and who got it. `single`: nobody else may get it then."""

    __slots__ = ("answer", "owner", "single", "used")

    def __init__(self, answer: Answer, *, single: bool) -> None:
        self.answer = answer
        self.single = single
        self.used = False
        self.owner: Hashable = None

    def free_for(self, subject: Hashable) -> bool:
        """Whether somebody may get it who is not the first."""
        return not self.used or not self.single or self.owner == subject


class _AnswerQueue:
    """Answers to one key in the order of the recording, and how far they are used."""

    __slots__ = ("answers", "next")

    def __init__(self) -> None:
        self.answers: list[_RecordedAnswer] = []
        self.next = 0

    def take(self, subject: Hashable) -> Answer | None:
        """The next that was not given yet, by whichever key; else the last that this one may have again."""
        while self.next < len(self.answers) and self.answers[self.next].used:
            self.next += 1
        if self.next < len(self.answers):
            given = self.answers[self.next]
        else:
            again = next((answer for answer in reversed(self.answers) if answer.free_for(subject)), None)
            if again is None:
                return None
            given = again
        given.used, given.owner = True, subject
        return given.answer


class Answers:
    """All answers of a recording. `unreadable` counts calls that could not be used."""

    def __init__(self, calls: Iterable[RecordedCall], parse: Parse, match: Match = Match.BEST) -> None:
        self._parse = parse
        self._keys = _KEYS[match]
        self._everything = match is Match.ORDER
        self._lines: dict[tuple[str, int, Hashable], _AnswerQueue] = defaultdict(_AnswerQueue)
        self._ids = IdMap()  # whole ids for those that people abbreviate
        self.methods: dict[str, int] = {}  # how many answers there are
        self.unreadable = 0
        for call in sorted(calls, key=lambda recorded_call: recorded_call.begin):
            self._add(call.flow)

    def _add(self, flow: Flow) -> None:
        method = flow.method
        if method is None:
            return
        try:
            answer = _answer(flow, method)
            requests = [body_of(message) for message in flow.messages_of(MessageSide.REQUEST, MessageSide.FORWARDED)]
        except ValueError:
            self.unreadable += 1
            return
        if answer is None:
            return
        keys: dict[tuple[str, int, Hashable], None] = {(method.name, _ANY, None): None}
        for request in requests:
            self._learn_ids(method, request)
            keys |= dict.fromkeys((method.name, level, key) for level, key in self._keys_of(method, request))
        given = _RecordedAnswer(answer, single=answer.code == 0 and method.name in CREATING_METHODS)
        for key in keys:
            self._lines[key].answers.append(given)
        self.methods[method.name] = self.methods.get(method.name, 0) + 1

    def _keys_of(self, method: Method, request: bytes) -> list[tuple[int, Hashable]]:
        keys: list[tuple[int, Hashable]] = [(_BYTES, request)]
        try:
            message = self._parse(method.request, request)
        except ValueError:
            return keys
        self._ids.translate(message)
        subject = request_subjects(message)
        keys.append((_MEANING, request_key(message, method)))
        return [*keys, (_SUBJECT, subject)] if subject else keys

    def _learn_ids(self, method: Method, request: bytes) -> None:
        try:
            message = self._parse(method.request, request)
        except ValueError:
            return
        for reference in references(message):
            self._ids.learn(reference, reference.id)

    def find(self, name: str, request: bytes) -> Answer | MissingAnswer:
        """The answer to a request of a method."""
        method = METHODS[name]
        if name not in self.methods:
            return MissingAnswer(unknown=True, text=f"the recording has no {name}")
        keys = self._keys_of(method, request)
        if Carries.FLT in method.carries:
            keys.append((_MEANING, b""))  # everything: the rest is left out of it
        if self._everything or Carries.ID not in method.carries or Carries.CFG in method.carries:
            # Whoever asks about one container must not be told about another.
            keys.append((_ANY, None))
        subject = self._subject(method, request)
        used_up = False
        for position, (level, key) in enumerate(keys):
            line = self._lines.get((name, level, key)) if level in self._keys else None
            if line is None:
                continue
            answer = line.take(subject or request)
            if answer is not None:
                return answer if position <= _MEANING else self._narrowed(method, request, answer)
            used_up = True
        text = (_used_up if used_up else _missing)(name, self.methods[name], subject)
        return MissingAnswer(unknown=False, text=text, used_up=used_up)

    def _narrowed(self, method: Method, request: bytes, answer: Answer) -> Answer:
        """A list without what was not asked for."""
        if method.name not in NARROWED:
            return answer
        try:
            wanted = self._parse(method.request, request)
            replies = [(reply, self._parse(method.response, reply.body)) for reply in answer.replies]
        except ValueError:
            return answer
        for _one, message in replies:
            narrow(method.name, wanted, message)
        return replace(
            answer,
            replies=tuple(RecordedReply(at=reply.at, body=message.SerializeToString()) for reply, message in replies),
        )

    def _subject(self, method: Method, request: bytes) -> str:
        try:
            return ", ".join(str(reference) for reference in request_subjects(self._parse(method.request, request)))
        except ValueError:
            return ""


def _used_up(name: str, count: int, subject: str) -> str:
    whom = f"; none is left for {subject}" if subject else ""
    if count == 1:
        return f"the only {name} in the recording was answered to somebody else{whom}"
    return f"all {count} calls of {name} in the recording were answered to others{whom}"


def _missing(name: str, count: int, subject: str) -> str:
    whom = f" for {subject}" if subject else ""
    if count == 1:
        return f"the only {name} in the recording does not fit this request{whom}"
    return f"none of the {count} calls of {name} in the recording fits this request{whom}"


def _answer(flow: Flow, method: Method) -> Answer | None:
    """None if the recording ended before there was an answer. ValueError: it was not kept."""
    received = flow.messages_of(MessageSide.RECEIVED)
    replies = tuple(
        RecordedReply(at=message.at, body=body_of(message))
        for message in received or flow.messages_of(MessageSide.REPLY)
    )
    if flow.end is None and (not method.server_streaming or not replies):
        return None
    if flow.end is not None and flow.end.code == 0 and not replies and not method.server_streaming:
        raise ValueError("there is no reply")
    return Answer(
        number=flow.number,
        replies=replies,
        elapsed=0 if flow.end is None else flow.end.elapsed,
        code=0 if flow.end is None else flow.end.code,
        message="" if flow.end is None else flow.end.message,
        open=flow.end is None,
    )


def method_counts(methods: dict[str, int]) -> Sequence[str]:
    """What is served: `CreateContainer 3`, most frequent first."""
    return [f"{name} {count}" for name, count in sorted(methods.items(), key=lambda item: (-item[1], item[0]))]
