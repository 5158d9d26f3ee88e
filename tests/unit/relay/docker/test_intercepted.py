"""Calls of Docker's API through a chain: what interceptors and taps see, what dockerd gets, what the caller gets."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cri.methods import METHODS
from interpose.cri.parser import CriParser
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.api import Body, Call, Direction, Interest, Proceed, Reply, Sighting, refusal
from interpose.relay.chain import Chain
from interpose.relay.docker.connection import HttpReply
from interpose.relay.docker.cri_adapter import DockerRuntime
from interpose.relay.docker.intercepted import DockerCallRunner
from interpose.relay.docker.translate.labels import DockerIdentity
from interpose.relay.docker.upstream import BackendAwayError, DockerUpstream
from interpose.relay.routes import Route, Routes
from interpose.relay.taps import TapRegistry
from tests.support.docker.calls import ScriptedDocker, body_of, http_call, http_reply, status_of

POD, APP = "a" * 64, "b" * 64
CREATE = "POST /v1.41/containers/create?name=k8s_app_web_shop_u-1_0"
LABELS = {"io.kubernetes.docker.type": "container", "io.kubernetes.sandbox.id": POD}
CONTAINER = {"Image": "busybox", "Labels": LABELS, "HostConfig": {"CpuShares": 2}}
SANDBOX = {"Image": "pause", "Labels": {"io.kubernetes.docker.type": "podsandbox"}}
UNCLEAR = b'{"Labels":{"io.kubernetes.docker.type":"container"},"labels":{}}'

Act = Callable[[Call, Proceed], Any]


class Interceptor:
    """Does what it is told, and notes what it sees."""

    name = "test"

    def __init__(self, methods: Iterable[str], act: Act | None = None) -> None:
        self.methods = tuple(methods)
        self.calls: list[Call] = []
        self.replies: list[Reply] = []
        self._act = act

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        """Note the call, and what becomes of it."""
        self.calls.append(call)
        reply: Reply = await (proceed() if self._act is None else self._act(call, proceed))
        self.replies.append(reply)
        return reply


class Looker:
    """A tap that wants everything."""

    name = "looker"

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.sightings: list[Sighting] = []

    def interest(self, method: str) -> Interest:
        """All of it."""
        return Interest.MESSAGES

    def on_begin(self, call: Sighting) -> None:
        """A call."""
        self.sightings.append(call)

    def on_message(self, call: Sighting, direction: Direction, message: bytes) -> None:
        """A message of it."""
        self.seen.append((direction.value, message))

    def on_unseen(self, call: Sighting, direction: Direction, size: int, why: str) -> None:
        """One that cannot be shown."""
        self.seen.append((direction.value, size))

    def on_end(self, call: Sighting, code: int, message: str, changed_by: Sequence[str]) -> None:
        """Its end."""
        self.seen.append(("end", code, tuple(changed_by)))


class Sights:
    """Passing calls."""

    def __init__(self) -> None:
        self.ended: list[tuple[int, str]] = []

    def __call__(self, _head: Any, _peer: Any) -> "Sights":
        return self

    def end(self, status: int, why: str = "") -> None:
        """Of one."""
        self.ended.append((status, why))


class Stage:
    """A collector with one interceptor; dockerd gives one answer to what is sent on."""

    def __init__(self, interceptor: Interceptor | None = None, *, taps: Sequence[Any] = ()) -> None:
        self.docker = ScriptedDocker()
        self.runtime = DockerRuntime(cast("DockerUpstream", self.docker))
        self.runtime.known.add(DockerIdentity(id=POD, sandbox=True), self.runtime.known.mark())
        self.runtime.known.add(DockerIdentity(id=APP, sandbox=False), self.runtime.known.mark())
        self.routes = Routes(None, None)
        self.time = 0.0
        self.call_runner = DockerCallRunner(
            chain=Chain([] if interceptor is None else [interceptor]),
            tap_registry=TapRegistry(taps),
            runtime=self.runtime,
            routes=self.routes,
            limit=1 << 20,
            now=lambda: asyncio.get_running_loop().time(),
        )
        for route in self.routes.known.values():
            route.subscribe(intercepted=True, taps=taps, readers=taps)
        self.answer: HttpReply | Exception = http_reply(201, {"Id": APP, "Warnings": []})
        self.sent: list[bytes] = []
        self.after: list[str] = []

    def route(self, method: str) -> Route:
        """Of a CRI method."""
        return self.routes.known[METHODS[method].paths[0].encode()]

    async def send(self, request: bytes) -> HttpReply:
        """What dockerd does."""
        self.sent.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def call(self, line: str, document: Any = None, *, send: Any = None) -> bytes:
        """A call of a client, up to what follows its answer."""
        call = http_call(line, document, send or self.send)
        answer = await self.call_runner.handle(call)
        for act in call.afterwards:
            act()
        return answer

    def body_sent(self) -> Any:
        """What dockerd got, parsed."""
        return json.loads(self.sent[-1].partition(b"\r\n\r\n")[2])


def raw(reply: HttpReply | Exception) -> bytes:
    """The bytes of an answer."""
    assert isinstance(reply, HttpReply)
    return reply.raw


# -- what passes


async def test_call_of_somebody_else_passes() -> None:
    """Byte by byte; and that its container is nobody's is not remembered."""
    stage, sights = Stage(), Sights()
    stage.call_runner.sight = sights
    stage.answer = http_reply(201, {"Id": "c" * 64})
    body = b'{ "Image" : "busybox" }'
    assert await stage.call("POST /containers/create", body) == raw(stage.answer)
    assert stage.sent[0].endswith(b"\r\n\r\n" + body)
    assert sights.ended == [(201, "")]
    await stage.call(f"POST /containers/{'c' * 64}/start")
    assert [line for line, _ in stage.docker.asked] == [
        "GET /images/busybox/json",
        f"GET /containers/{'c' * 64}/json",
    ]
    assert not any(route.stats.started for route in stage.routes.known.values())


async def test_sandbox_is_started_without_the_chain() -> None:
    """CRI has no call for it."""
    interceptor = Interceptor(METHODS)
    stage = Stage(interceptor)
    stage.answer = http_reply(204)
    assert await stage.call(f"POST /containers/{POD}/start") == raw(stage.answer)
    assert not interceptor.calls


@pytest.mark.parametrize(
    ("answer", "status", "sighted"),
    [
        (HttpReply(failure="lost"), 502, 0),
        (HttpReply(), 502, 0),
        (BackendAwayError("dockerd is away"), 503, 503),
    ],
)
async def test_passing_call_without_an_answer(answer: HttpReply | Exception, status: int, sighted: int) -> None:
    """The caller gets Docker's JSON."""
    stage, sights = Stage(), Sights()
    stage.call_runner.sight = sights
    stage.answer = answer
    answered = await stage.call("POST /containers/create", {})
    assert status_of(answered) == status
    assert body_of(answered)["message"]
    assert sights.ended[0][0] == sighted


# -- what interceptors see, and what dockerd gets


async def test_untouched_create_is_sent_as_it_came() -> None:
    """Dockerd's answer too, and interceptors see the CRI call and its reply."""
    interceptor = Interceptor(["CreateContainer"], None)
    stage = Stage(interceptor)
    body = json.dumps(CONTAINER, indent=3).encode()
    assert await stage.call(CREATE, body) == raw(stage.answer)
    assert stage.sent[0].endswith(b"\r\n\r\n" + body)
    call, reply = interceptor.calls[0], interceptor.replies[0]
    assert call.path == b"/runtime.v1.RuntimeService/CreateContainer"
    assert call.request.config.metadata.name == "app"
    assert (b"host", b"docker") in call.metadata
    assert reply.response.container_id == APP


async def test_changes_reach_dockerd() -> None:
    """And nothing else changes."""

    async def shares(call: Call, proceed: Proceed) -> Reply:
        call.request.config.linux.resources.cpu_shares = 512
        return await proceed()

    stage = Stage(Interceptor(["CreateContainer"], shares))
    await stage.call(CREATE, CONTAINER)
    assert stage.body_sent() == {**CONTAINER, "HostConfig": {"CpuShares": 512}}


async def test_changes_docker_has_no_place_for(caplog: pytest.LogCaptureFixture) -> None:
    """Are told once; the body goes as it came."""

    async def unified(call: Call, proceed: Proceed) -> Reply:
        call.request.config.linux.resources.unified["memory.high"] = "1"
        return await proceed()

    stage = Stage(Interceptor(["CreateContainer"], unified))
    body = json.dumps(CONTAINER, indent=3).encode()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            await stage.call(CREATE, body)
    assert [one.message for one in caplog.records] == ["Docker has no place for something that was changed"]
    assert stage.sent[0].endswith(body)


async def test_new_containers_and_sandboxes_are_known_at_once() -> None:
    """And forgotten when they are gone."""
    stage = Stage(Interceptor(["RunPodSandbox", "CreateContainer"]))
    stage.runtime.known.remove(POD)
    stage.answer = http_reply(201, {"Id": POD})
    await stage.call("POST /containers/create?name=k8s_POD_web_shop_u-1_0", SANDBOX)
    found = await stage.runtime.find_identity(POD)
    assert found is not None
    assert (found.sandbox, found.pod_name) == (True, "web")
    assert not stage.docker.asked
    stage.answer = http_reply(204)
    await stage.call(f"DELETE /containers/{POD}")
    await stage.runtime.find_identity(POD)
    assert len(stage.docker.asked) == 1


@pytest.mark.parametrize(
    ("status", "code"),
    [(204, Code.OK), (304, Code.OK), (404, Code.NOT_FOUND), (409, Code.FAILED_PRECONDITION), (500, Code.UNKNOWN)],
)
async def test_answers_of_dockerd_have_codes(status: int, code: Code) -> None:
    """The caller gets them as they came."""
    interceptor = Interceptor(["StopContainer"])
    stage = Stage(interceptor)
    stage.answer = http_reply(status, None if status in (204, 304) else {"message": "because"})
    assert await stage.call(f"POST /containers/{APP}/stop") == raw(stage.answer)
    reply = interceptor.replies[0]
    assert reply.code == code
    assert reply.raw.failure is None
    assert reply.message == ("because" if code else "")


async def test_name_in_use() -> None:
    """A conflict of a create is one of names."""
    interceptor = Interceptor(["CreateContainer"])
    stage = Stage(interceptor)
    stage.answer = http_reply(409, {"message": "Conflict."})
    assert await stage.call(CREATE, CONTAINER) == raw(stage.answer)
    assert interceptor.replies[0].code == Code.ALREADY_EXISTS


async def test_create_without_an_id() -> None:
    """Nobody knows what was created: unreadable, which bookkeeping takes for doubt."""
    interceptor = Interceptor(["CreateContainer"])
    stage = Stage(interceptor)
    stage.answer = http_reply(201, {})
    assert await stage.call(CREATE, CONTAINER) == raw(stage.answer)
    body = interceptor.replies[0].body
    assert body is not None
    assert not body.readable


async def test_lost_in_the_middle() -> None:
    """Doubtful for those who keep records, 502 for the caller."""
    interceptor = Interceptor(["CreateContainer"])
    stage = Stage(interceptor)
    stage.answer = HttpReply(raw=b"HTTP/1.1 201 Cre", failure="dockerd closed the connection")
    answer = await stage.call(CREATE, CONTAINER)
    assert status_of(answer) == 502
    assert b"Connection: close" in answer
    reply = interceptor.replies[0]
    assert (reply.code, reply.raw.failure) == (Code.UNAVAILABLE, "dockerd closed the connection")


async def test_dockerd_is_away() -> None:
    """503, and nothing was sent."""
    interceptor = Interceptor(["CreateContainer"])
    stage = Stage(interceptor)
    stage.answer = BackendAwayError("docker daemon x is not reachable")
    answer = await stage.call(CREATE, CONTAINER)
    assert (status_of(answer), body_of(answer)) == (503, {"message": "docker daemon x is not reachable"})
    assert interceptor.replies[0].code == Code.UNAVAILABLE


async def test_what_dockerd_does_not_know_is_forgotten() -> None:
    """Whatever was asked of it."""
    stage = Stage(Interceptor(["StopContainer"]))
    stage.answer = http_reply(404, {"message": "No such container"})
    await stage.call(f"POST /containers/{APP}/stop")
    assert not stage.docker.asked
    await stage.call(f"POST /containers/{APP}/stop")
    assert len(stage.docker.asked) == 1


async def test_dockerd_is_asked_for_what_was_looked_at() -> None:
    """By the whole id, if it is Kubernetes', also where the call passes; else by the name that came."""
    stage = Stage(Interceptor(["StopContainer"]))
    for name, labels in (("web", LABELS), ("pod", SANDBOX["Labels"]), ("hand", {})):
        found = {"Id": POD if name == "pod" else APP, "Config": {"Labels": labels}}
        stage.docker.answers[f"GET /containers/{name}/json"] = http_reply(200, found)
    stage.answer = http_reply(204)
    for line in ("web/stop?t=1", "pod/start", "hand/stop", f"{APP}/stop"):
        await stage.call(f"POST /v1.41/containers/{line}")
    lines = [request.partition(b" HTTP")[0].decode().removeprefix("POST /v1.41/containers/") for request in stage.sent]
    assert lines == [f"{APP}/stop?t=1", f"{POD}/start", "hand/stop", f"{APP}/stop"]


# -- answers of interceptors


@pytest.mark.parametrize(
    ("code", "status"),
    [(Code.FAILED_PRECONDITION, 403), (Code.INVALID_ARGUMENT, 400), (Code.UNAVAILABLE, 503), (Code.INTERNAL, 500)],
)
async def test_refusals(code: Code, status: int) -> None:
    """As Docker's JSON; dockerd hears nothing."""

    async def refuse(_call: Call, _proceed: Proceed) -> Reply:
        return refusal(code, "not today")

    stage = Stage(Interceptor(["CreateContainer"], refuse))
    answer = await stage.call(CREATE, CONTAINER)
    assert (status_of(answer), body_of(answer)) == (status, {"message": "not today"})
    assert not stage.sent


async def test_error_that_leaves_the_chain() -> None:
    """Is a status like any other."""
    stage = Stage()
    stage.answer = RpcError(Code.DEADLINE_EXCEEDED, "too slow")
    assert status_of(await stage.call(CREATE, CONTAINER)) == 504


@pytest.mark.parametrize(
    ("line", "document", "response", "status", "said"),
    [
        (CREATE, CONTAINER, cri.CreateContainerResponse(container_id="x"), 201, {"Id": "x", "Warnings": []}),
        (CREATE, SANDBOX, cri.RunPodSandboxResponse(pod_sandbox_id="y"), 201, {"Id": "y", "Warnings": []}),
        (f"POST /containers/{APP}/update", {}, cri.UpdateContainerResourcesResponse(), 200, {"Warnings": []}),
        (f"POST /containers/{APP}/stop", None, cri.StopContainerResponse(), 204, None),
    ],
)
async def test_answered_in_place_of_dockerd(line: str, document: Any, response: Any, status: int, said: Any) -> None:
    """The caller gets what dockerd would say."""

    async def answer(call: Call, _proceed: Proceed) -> Reply:
        return Reply(code=0, body=Body(response.SerializeToString(), CriParser(call.method.response)))

    stage = Stage(Interceptor(METHODS, answer))
    answered = await stage.call(line, document)
    assert (status_of(answered), body_of(answered)) == (status, said)
    assert not stage.sent


# -- what cannot be read


async def test_unreadable_create_asks_for_both() -> None:
    """And goes on as it came if nobody minds."""
    interceptor = Interceptor(["RunPodSandbox", "CreateContainer"])
    stage = Stage(interceptor)
    assert await stage.call(CREATE, UNCLEAR) == raw(stage.answer)
    assert [call.method.name for call in interceptor.calls] == ["RunPodSandbox", "CreateContainer"]
    assert not any(call.body.readable for call in interceptor.calls)
    assert stage.sent[0].endswith(UNCLEAR)


@pytest.mark.parametrize("method", ["RunPodSandbox", "CreateContainer"])
async def test_unreadable_create_refused_by_one(method: str) -> None:
    """It may be either."""

    async def refuse(_call: Call, _proceed: Proceed) -> Reply:
        return refusal(Code.FAILED_PRECONDITION, "unclear")

    stage = Stage(Interceptor([method], refuse))
    assert status_of(await stage.call(CREATE, UNCLEAR)) == 403
    assert not stage.sent


async def test_start_with_a_body_asks_for_all_it_may_be() -> None:
    """To an old API it sets the container's resources anew; those who guard them may refuse it."""

    async def refuse(_call: Call, _proceed: Proceed) -> Reply:
        return refusal(Code.FAILED_PRECONDITION, "unclear")

    for method in ("CreateContainer", "UpdateContainerResources", "StartContainer"):
        stage = Stage(Interceptor([method], refuse))
        assert status_of(await stage.call(f"POST /v1.23/containers/{APP}/start", {"CpuShares": 4000})) == 403
        assert not stage.sent
    stage = Stage(Interceptor(["RunPodSandbox"], refuse))
    assert status_of(await stage.call(f"POST /v1.23/containers/{POD}/start", {"CpuShares": 4000})) == 403
    stage.answer = http_reply(204)
    assert status_of(await stage.call(f"POST /v1.23/containers/{APP}/start", {"CpuShares": 4000})) == 204


@pytest.mark.parametrize("seen", [True, False])
async def test_body_that_nobody_can_look_at(seen: bool) -> None:
    """Is refused, and whoever looks on hears of it."""
    stage, sights = Stage(), Sights()
    if seen:
        stage.call_runner.sight = sights
    answer = await stage.call(CREATE, json.dumps(CONTAINER).encode() + b" " * (4 << 20))
    assert status_of(answer) == 413
    assert sights.ended == ([(413, body_of(answer)["message"])] if seen else [])
    assert not stage.sent


# -- afterwards


async def test_stopped_sandbox_is_told() -> None:
    """After everything else."""

    async def note(call: Call, proceed: Proceed) -> Reply:
        call.afterwards(lambda: stage.after.append("records"))
        return await proceed()

    stage = Stage(Interceptor(["StopPodSandbox"], note))
    stage.call_runner.on_sandbox_stopped = lambda: stage.after.append("stopped")
    stage.answer = http_reply(204)
    await stage.call(f"POST /containers/{POD}/stop")
    assert stage.after == ["records", "stopped"]
    stage.answer = http_reply(500, {"message": "x"})
    await stage.call(f"POST /containers/{POD}/stop")
    assert stage.after == ["records", "stopped", "records"]


async def test_caller_leaves() -> None:
    """The chain is cancelled; what was to be done afterwards is done; the call is counted."""
    waiting = asyncio.Event()

    async def stand_still(call: Call, proceed: Proceed) -> Reply:
        await proceed()
        call.afterwards(lambda: stage.after.append("records"))
        waiting.set()
        await asyncio.Event().wait()
        raise AssertionError

    looker = Looker()
    stage = Stage(Interceptor(["CreateContainer"], stand_still), taps=[looker])
    task = asyncio.get_running_loop().create_task(stage.call(CREATE, CONTAINER))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stage.after == ["records"]
    stats = stage.route("CreateContainer").stats
    assert (stats.started, stats.codes[Code.CANCELLED], stats.in_flight) == (1, 1, 0)
    assert looker.seen[-1][:2] == ("end", Code.CANCELLED)


async def test_own_mistake_is_counted() -> None:
    """Whoever runs the call answers; the books are right."""
    stage = Stage()
    stage.answer = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await stage.call(CREATE, CONTAINER)
    assert stage.route("CreateContainer").stats.codes[Code.INTERNAL] == 1


# -- counters and taps


async def test_counters() -> None:
    """As those of a CRI call."""
    stage = Stage()
    answer = await stage.call(CREATE, CONTAINER)
    stats = stage.route("CreateContainer").stats
    assert (stats.started, stats.codes[0], sum(stats.own_buckets)) == (1, 1, 1)
    assert (stats.bytes_received, stats.bytes_sent) == (len(json.dumps(CONTAINER)), len(answer))


async def test_taps_see_a_cri_call() -> None:
    """As it came, as it went on, as it was answered; and how it was asked."""

    async def shares(call: Call, proceed: Proceed) -> Reply:
        call.request.config.linux.resources.cpu_shares = 512
        return await proceed()

    looker = Looker()
    stage = Stage(Interceptor(["CreateContainer"], shares), taps=[looker])
    await stage.call(CREATE, CONTAINER)
    asked, forwarded, reply, end = looker.seen
    assert cri.CreateContainerRequest.FromString(asked[1]).config.linux.resources.cpu_shares == 2
    assert forwarded[0] == "forwarded"
    assert cri.CreateContainerRequest.FromString(forwarded[1]).config.linux.resources.cpu_shares == 512
    assert reply == ("reply", cri.CreateContainerResponse(container_id=APP).SerializeToString())
    assert end == ("end", 0, ("test",))
    assert list(looker.sightings[0].metadata) == [(b"docker", CREATE.encode())]
    assert looker.sightings[0].path == b"/runtime.v1.RuntimeService/CreateContainer"


async def test_taps_hear_of_what_cannot_be_shown() -> None:
    """Its size, and how it ended."""
    looker = Looker()
    await Stage(taps=[looker]).call(CREATE, UNCLEAR)
    assert looker.seen == [("request", len(UNCLEAR)), ("end", 0, ())]


async def test_taps_see_a_changed_reply_both_ways() -> None:
    """The caller gets dockerd's bytes all the same."""

    async def rename(_call: Call, proceed: Proceed) -> Reply:
        reply = await proceed()
        reply.response.container_id = "other"
        return reply

    looker = Looker()
    stage = Stage(Interceptor(["CreateContainer"], rename), taps=[looker])
    assert await stage.call(CREATE, CONTAINER) == raw(stage.answer)
    assert [one[0] for one in looker.seen] == ["request", "received", "reply", "end"]


# -- calls of our own


async def originated(stage: Stage, request: Any, *, below: Any = None) -> Reply:
    """A call of the store."""
    name = type(request).__name__.removesuffix("Request")
    path = METHODS[name].paths[0].encode()
    return await stage.call_runner.originate(
        stage.routes.known[path], path, request.SerializeToString(), origin="store", below=below, timeout=5.0
    )


async def test_calls_of_our_own_enter_below_their_part() -> None:
    """Taps see them, the part itself does not."""
    interceptor, looker = Interceptor(["ListContainers"]), Looker()
    stage = Stage(interceptor, taps=[looker])
    stage.docker.answers["GET /containers/json"] = http_reply(200, [])
    assert (await originated(stage, cri.ListContainersRequest())).code == 0
    assert interceptor.calls[0].origin == "store"
    await originated(stage, cri.ListContainersRequest(), below=interceptor)
    assert len(interceptor.calls) == 1
    assert [one[0] for one in looker.seen] == ["request", "reply", "end"] * 2


async def test_changed_calls_of_our_own() -> None:
    """A policy changes what another part asks for."""

    async def cpus(call: Call, proceed: Proceed) -> Reply:
        call.request.linux.cpuset_cpus = "3"
        return await proceed()

    looker = Looker()
    stage = Stage(Interceptor(["UpdateContainerResources"], cpus), taps=[looker])
    await originated(stage, cri.UpdateContainerResourcesRequest(container_id=APP))
    assert stage.docker.asked == [(f"POST /containers/{APP}/update", b'{"CpusetCpus":"3"}')]
    assert [one[0] for one in looker.seen] == ["request", "forwarded", "end"]
