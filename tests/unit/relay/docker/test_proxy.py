"""Which calls are collected, who sees those that pass, and what is counted."""

import json
from collections.abc import Sequence
from typing import Any, cast

import pytest

from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.net.grpc.status import Code
from interpose.net.grpc.transport import Hub
from interpose.net.h1.heads import RequestHead
from interpose.relay.api import Call, Direction, Interest, Proceed, Reply, Sighting
from interpose.relay.docker.proxy import DockerRelay
from interpose.relay.docker.routes import DockerOperation
from interpose.relay.docker.upstream import DockerUpstream
from interpose.testing.eventually import eventually
from tests.support.docker.calls import HEADS, ScriptedDocker, http_call, http_reply, status_of

ACTS = {
    DockerOperation.CREATE: "POST /containers/create",
    DockerOperation.START: "POST /containers/x/start",
    DockerOperation.STOP: "POST /v1.41/containers/x/stop",
    DockerOperation.KILL: "POST /containers/x/kill",
    DockerOperation.RESTART: "POST /containers/x/restart",
    DockerOperation.UPDATE: "POST /containers/x/update",
    DockerOperation.REMOVE: "DELETE /containers/x",
}
APP = "b" * 64
BODY = {"Image": "x", "Labels": {"io.kubernetes.docker.type": "podsandbox"}}


def head(line: str, *fields: str) -> RequestHead:
    """The head of a request."""
    return HEADS.request("\r\n".join((f"{line} HTTP/1.1", "Host: docker", *fields, "", "")).encode())


class Eyes:
    """A tap that notes what it sees."""

    name = "eyes"

    def __init__(self, *methods: str) -> None:
        self.methods = methods
        self.seen: list[str] = []

    def interest(self, method: str) -> Interest:
        return Interest.MESSAGES if method in self.methods else Interest.NONE

    def on_begin(self, call: Sighting) -> None:
        self.seen.append(f"begin {call.path.decode()}")

    def on_message(self, call: Sighting, direction: Direction, message: bytes) -> None:
        self.seen.append(f"{direction} {len(message) > 0}")

    def on_unseen(self, call: Sighting, direction: Direction, size: int, why: str) -> None:
        self.seen.append(why)

    def on_end(self, call: Sighting, code: int, message: str, changed_by: Sequence[str]) -> None:
        self.seen.append(f"end {Code(code).name} {message}")


class Gate:
    """An interceptor of the methods it is told."""

    name = "gate"

    def __init__(self, *methods: str) -> None:
        self.methods = methods

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        return await proceed()


class Stage:
    """A relay that is connected to nobody."""

    def __init__(self) -> None:
        self.docker = ScriptedDocker()
        self.relay = DockerRelay(cast("DockerUpstream", self.docker), limit=1 << 20, now=lambda: 0.0)

    def tell(self, action: str) -> None:
        """dockerd tells what happened to a container of Kubernetes."""
        labels = {"io.kubernetes.docker.type": "container"}
        event = {"Type": "container", "Action": action, "Actor": {"ID": APP, "Attributes": labels}}
        assert self.docker.on_event is not None
        self.docker.on_event(json.dumps(event).encode())

    def intercept(self, *methods: str) -> None:
        """Somebody stands in the way of these."""
        self.relay.subscribe([Gate(*methods)], hub=Hub(), message_limit=1 << 20, now=lambda: 0.0)

    @property
    def wanted(self) -> set[DockerOperation]:
        """What is collected."""
        wanted = {act for act, line in ACTS.items() if self.relay.needs_buffering(head(line))}
        return wanted | (
            {DockerOperation.RESET}
            if self.relay.needs_buffering(head(ACTS[DockerOperation.START], "Content-Length: 9"))
            else set()
        )


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_without_subscribers_everything_passes(stage: Stage) -> None:
    """Also once somebody was asked."""
    assert not stage.wanted
    stage.relay.refresh()
    assert not stage.wanted


@pytest.mark.parametrize(
    ("method", "acts"),
    [
        ("RunPodSandbox", {DockerOperation.CREATE, DockerOperation.RESET}),
        ("CreateContainer", {DockerOperation.CREATE, DockerOperation.RESET}),
        ("StartContainer", {DockerOperation.START, DockerOperation.RESET, DockerOperation.RESTART}),
        ("StopContainer", {DockerOperation.STOP, DockerOperation.KILL}),
        ("StopPodSandbox", {DockerOperation.STOP, DockerOperation.KILL}),
        ("UpdateContainerResources", {DockerOperation.UPDATE, DockerOperation.RESET}),
        ("RemovePodSandbox", {DockerOperation.REMOVE}),
        ("Version", set()),
    ],
)
def test_acts_are_wanted_with_the_methods_they_may_be(stage: Stage, method: str, acts: set[DockerOperation]) -> None:
    """And no others."""
    stage.intercept(method)
    assert stage.wanted == acts


def test_other_calls_are_never_wanted(stage: Stage) -> None:
    """Whatever is intercepted."""
    stage.intercept("RunPodSandbox", "CreateContainer", "StopContainer", "ListContainers")
    for line in ("GET /containers/json", "POST /containers/x/wait", "POST /containers/x/kill?signal=HUP", "GET /_ping"):
        assert not stage.relay.needs_buffering(head(line)), line


async def test_a_tap_alone_sees_calls_as_cri(stage: Stage) -> None:
    """Nobody intercepts, and still the call is shown as what it is; dockerd gets the bytes that came."""
    eyes = Eyes("RunPodSandbox")
    stage.relay.add_tap(eyes)
    sent: list[bytes] = []

    async def send(request: bytes) -> Any:
        sent.append(request)
        return http_reply(201, {"Id": "a" * 64, "Warnings": []})

    for _ in range(2):
        call = http_call("POST /containers/create?name=k8s_POD_web_shop_u-1_0", BODY, send)
        assert status_of(await stage.relay.handle(call)) == 201
    assert sent[0].endswith(json.dumps(BODY).encode())
    path = "/runtime.v1.RuntimeService/RunPodSandbox"
    assert eyes.seen == [f"begin {path}", "request True", "reply True", "end OK "] * 2
    stage.relay.remove_tap(eyes)
    assert not stage.wanted


def test_calls_that_pass_are_shown_to_who_wants_them(stage: Stage) -> None:
    """By their line without the query, and with how they ended."""
    assert stage.relay.begin(head("GET /info"), None) is None
    eyes = Eyes("")
    stage.relay.add_tap(eyes)
    ends = [(200, ""), (101, ""), (304, ""), (404, ""), (0, "gone"), (500, "why")]
    for status, why in ends:
        sighted = stage.relay.begin(head("GET /v1.41/info?x=secret"), None)
        assert sighted is not None
        sighted.end(status, why)
    assert set(eyes.seen[::2]) == {"begin /docker/GET /v1.41/info"}
    assert eyes.seen[1::2] == [
        "end OK ",
        "end OK ",
        "end OK ",
        "end NOT_FOUND HTTP 404",
        "end UNAVAILABLE gone",
        "end UNKNOWN why",
    ]


def test_what_is_counted(stage: Stage) -> None:
    """Each endpoint has counters of its own; the same path with another id shares them."""
    first = stage.relay.stats(head("GET /containers/a/json").route.endpoint)
    assert stage.relay.stats(head("GET /containers/b/json").route.endpoint) is first
    first.started += 3
    first.finish(200, 0.1)
    first.finish(404, 0.1)
    assert (stage.relay.in_flight, stage.relay.totals()) == (1, (3, 1))


async def test_records_hear_from_dockerd(stage: Stage) -> None:
    """As long as somebody keeps them; and when a sandbox was stopped, everything is looked at again."""
    asked: list[str] = []

    async def ask(method: str, _message: bytes) -> bytes:
        asked.append(method)
        return b""

    stage.intercept("StopPodSandbox")
    stage.relay.call_runner.on_sandbox_stopped()  # nobody keeps records: nothing happens
    stage.tell("die")
    sync = Synchronizer(Store(), ask)
    stage.relay.attach_store(sync)
    stage.relay.call_runner.on_sandbox_stopped()
    await eventually(lambda: "ListContainers" in asked, "a look at everything")
    asked.clear()
    stage.tell("die")
    await eventually(lambda: "ListContainers" in asked, "another look")
    stage.relay.detach_store()
    asked.clear()
    stage.tell("die")
    stage.relay.call_runner.on_sandbox_stopped()
    await sync.close()
    assert not asked


@pytest.mark.parametrize("somebody", [True, False])
async def test_who_was_removed_past_us_is_not_remembered(stage: Stage, somebody: bool) -> None:
    """Whether somebody intercepts, or only looks on; nobody has to keep records for that."""
    if somebody:
        stage.intercept("StopContainer")
    else:
        stage.relay.add_tap(Eyes("StopContainer"))
    found = {"Id": APP, "Config": {"Labels": {"io.kubernetes.docker.type": "container"}}}
    stage.docker.answers[f"GET /containers/{APP}/json"] = http_reply(200, found)

    async def send(_request: bytes) -> Any:
        return http_reply(204)

    async def stop() -> int:
        stage.docker.asked.clear()
        await stage.relay.handle(http_call(f"POST /containers/{APP}/stop", None, send))
        return len(stage.docker.asked)

    assert (await stop(), await stop()) == (1, 0)
    stage.tell("die")
    assert await stop() == 0
    stage.tell("destroy")
    assert await stop() == 1


async def test_what_a_tap_made_us_learn_is_not_asked_again(stage: Stage) -> None:
    """When somebody intercepts later."""
    found = {"Id": APP, "Config": {"Labels": {"io.kubernetes.docker.type": "container"}}}
    stage.docker.answers[f"GET /containers/{APP}/json"] = http_reply(200, found)

    async def send(_request: bytes) -> Any:
        return http_reply(204)

    stage.relay.add_tap(Eyes("StopContainer"))
    await stage.relay.handle(http_call(f"POST /containers/{APP}/stop", None, send))
    stage.intercept("StopContainer")
    await stage.relay.handle(http_call(f"POST /containers/{APP}/stop", None, send))
    assert len(stage.docker.asked) == 1


def test_events_of_others_and_before_anybody_needs_them(stage: Stage) -> None:
    """Do nothing."""
    stage.tell("destroy")
    assert stage.docker.on_event is not None
    stage.docker.on_event(b"?")
