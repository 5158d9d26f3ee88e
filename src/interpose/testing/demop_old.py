"""What the demo puts into the relay: a hook server, a policy, a tap, and the words to show what they did.

Small on purpose, and a model for real ones: the hook server answers only what it wants changed, the policy edits the
parsed request in place, and neither says anything about transport. Nothing here prints.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from google.protobuf.message import Message

from interpose.api import cri_pb2 as cri
from interpose.api import hook_pb2 as hook
from interpose.hookapi.hookpoint import HookPoint
from interpose.relay.interceptor import CLIENT, Call, Direction, Proceed, Reply
from interpose.relay.methods import METHODS, Method
from interpose.testing.hookserver import FakeHookServer

PLUGIN = "zone"  # the name of the hook server: that of its file
ZONE = "rack-7"
SEEN = "demo.interpose/seen"
SHARED_CPUS = "0-1"
CRITICAL_CPUS = "2-3"
# The least the kernel knows: such a container runs when nobody else wants to.
IDLE_SHARES = 2

HOOKS = (HookPoint.PRE_RUN_POD_SANDBOX, HookPoint.PRE_CREATE_CONTAINER, HookPoint.POST_STOP_CONTAINER)
# What somebody in the relay changes: the requests of the first two, the reply of the third.
SHAPED = ("RunPodSandbox", "CreateContainer", "ContainerStatus")


def hook_server() -> FakeHookServer:
    """Marks pods, tells containers their zone, makes those of batch pods yield to everybody, and hears of stops."""
    server = FakeHookServer()
    server.answers[HookPoint.PRE_RUN_POD_SANDBOX] = hook.PodSandboxHookResponse(annotations={SEEN: "yes"})
    server.answers[HookPoint.PRE_CREATE_CONTAINER] = _shape
    return server


def _shape(request: Any) -> hook.ContainerResourceHookResponse:
    answer = hook.ContainerResourceHookResponse(container_envs={"NODE_ZONE": ZONE})
    if request.pod_labels.get("tier") == "batch":
        answer.container_resources.cpu_shares = IDLE_SHARES
    return answer


class Policy:
    """Gives critical pods CPUs of their own and everybody else the shared ones. It runs last: its word stands."""

    name = "policy"
    methods = ("CreateContainer",)

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        """Choose the CPUs."""
        tier = call.request.sandbox_config.labels.get("tier")
        call.request.config.linux.resources.cpuset_cpus = CRITICAL_CPUS if tier == "critical" else SHARED_CPUS
        return await proceed()


class Passed(NamedTuple):
    """A call at one place in the chain: the request on its way there, the reply on its way back."""

    request: bytes
    reply: bytes


class Witness:
    """Stands between two others and notes what passes, so that it can be said who changed what."""

    name = "witness"
    methods = SHAPED

    def __init__(self) -> None:
        self.notes: list[Passed] = []

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        """Look, and let it pass."""
        request = call.body.data()
        reply = await proceed()
        self.notes.append(Passed(request, reply.body.data() if reply.body is not None else b""))
        return reply


@dataclass(slots=True)
class Seen:
    """One call as the tap saw it: whole messages by direction, times of the given clock."""

    method: Method
    began: float
    ended: float = 0.0
    code: int | None = None
    origin: str = CLIENT
    messages: dict[Direction, bytes] = field(default_factory=dict)

    @property
    def request(self) -> bytes:
        """As the caller sent it."""
        return self.messages.get(Direction.REQUEST, b"")

    @property
    def forwarded(self) -> bytes:
        """As the runtime got it."""
        return self.messages.get(Direction.FORWARDED, self.request)


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
            self.calls[call] = Seen(method, self._clock(), origin=origin)
        self.calls[call].messages[direction] = message

    def on_end(self, call: int, method: Method, code: int) -> None:
        """Note the end."""
        now = self._clock()
        seen = self.calls.setdefault(call, Seen(method, now))
        seen.code, seen.ended = code, now


class Change(NamedTuple):
    """One field of a message and who changed it; None stands for not there."""

    by: str
    path: str
    before: str | None
    after: str | None


def changes(by: str, kind: type[Message], before: bytes, after: bytes) -> list[Change]:
    """How two messages of a kind differ, field by field."""
    if before == after:
        return []
    was, now = (dict(_leaves(kind.FromString(data), "")) for data in (before, after))
    paths = [*now, *(path for path in was if path not in now)]
    return [Change(by, path, was.get(path), now.get(path)) for path in paths if was.get(path) != now.get(path)]


def changes_by_stage(seen: Seen, stages: list[tuple[str, bytes]]) -> list[Change]:
    """What became of a request on its way; each stage is who comes next and the request after it."""
    kind = getattr(cri, seen.method.request)
    found: list[Change] = []
    before = seen.request
    for by, after in stages:
        found += changes(by, kind, before, after)
        before = after
    return found


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
