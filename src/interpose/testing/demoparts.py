"""What the demo puts into the relay: a hook, a policy, a tap, and the words to show what they did.

Small on purpose, and a model for real ones: both interceptors edit the parsed request in place and say nothing about
transport. Nothing here prints.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message

from interpose.api import cri_pb2 as cri
from interpose.relay.interceptor import Call, Direction, Proceed, Reply
from interpose.relay.methods import METHODS, Method

ZONE = "rack-7"
SEEN = "demo.interpose/seen"
SHARED_CPUS = "0-1"
CRITICAL_CPUS = "2-3"
# The least the kernel knows: such a container runs when nobody else wants to.
IDLE_SHARES = 2


class Hook:
    """Marks pods, tells containers their zone, and makes those of batch pods yield to everybody."""

    name = "hook"
    methods = ("RunPodSandbox", "CreateContainer")

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        """Edit what goes to the runtime; the answer passes as it is."""
        if call.method.name == "RunPodSandbox":
            call.request.config.annotations[SEEN] = "yes"
        else:
            container = call.request.config
            container.envs.add(key="NODE_ZONE", value=ZONE.encode())
            if call.request.sandbox_config.labels.get("tier") == "batch":
                container.linux.resources.cpu_shares = IDLE_SHARES
        return await proceed()


class Policy:
    """Gives critical pods CPUs of their own and everybody else the shared ones. It runs last: its word stands."""

    name = "policy"
    methods = ("CreateContainer",)

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        """Choose the CPUs."""
        tier = call.request.sandbox_config.labels.get("tier")
        call.request.config.linux.resources.cpuset_cpus = CRITICAL_CPUS if tier == "critical" else SHARED_CPUS
        return await proceed()


@dataclass(slots=True)
class Seen:
    """One call as the tap saw it: whole messages by direction, times of the given clock."""

    method: Method
    began: float
    ended: float = 0.0
    code: int | None = None
    messages: dict[Direction, bytes] = field(default_factory=dict)


class Recorder:
    """A tap on every method that keeps what passes."""

    name = "recorder"
    methods = tuple(METHODS)

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.calls: dict[int, Seen] = {}

    def on_message(self, call: int, method: Method, origin: str, direction: Direction, message: bytes) -> None:
        """Keep a message."""
        if call not in self.calls:
            self.calls[call] = Seen(method, self._clock())
        self.calls[call].messages[direction] = message

    def on_end(self, call: int, method: Method, code: int) -> None:
        """Note the end."""
        now = self._clock()
        seen = self.calls.setdefault(call, Seen(method, now))
        seen.code, seen.ended = code, now


@dataclass(frozen=True, slots=True)
class Change:
    """One field of a request; None stands for not there."""

    path: str
    before: str | None
    after: str | None


def changes(seen: Seen) -> list[Change]:
    """What the runtime got that the caller had not sent, field by field."""
    if Direction.FORWARDED not in seen.messages:
        return []
    kind = getattr(cri, seen.method.request)
    before = dict(_leaves(kind.FromString(seen.messages[Direction.REQUEST]), ""))
    after = dict(_leaves(kind.FromString(seen.messages[Direction.FORWARDED]), ""))
    paths = [*after, *(path for path in before if path not in after)]
    return [Change(path, before.get(path), after.get(path)) for path in paths if before.get(path) != after.get(path)]


def _leaves(message: Message, prefix: str) -> Iterator[tuple[str, str]]:
    """Every set scalar with its path. Lists of key-value pairs are shown by key, as maps are."""
    for descriptor, value in message.ListFields():
        path = f"{prefix}{descriptor.name}"
        if isinstance(value, Message):
            yield from _leaves(value, f"{path}.")
        elif hasattr(value, "items"):
            yield from ((f"{path}[{key}]", _text(item)) for key, item in value.items())
        elif descriptor.is_repeated:
            for index, item in enumerate(value):
                if isinstance(item, cri.KeyValue):
                    yield f"{path}[{item.key}]", _text(item.value)
                elif isinstance(item, Message):
                    yield from _leaves(item, f"{path}[{index}].")
                else:
                    yield f"{path}[{index}]", _text(item)
        else:
            yield path, _text(value)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
