"""Statuses and events of containers whose resources were changed show what the caller asked for."""

from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.pod import Container
from interpose.core.model.resources import FIELDS, LinuxResources
from interpose.cri.errors import UnreadableMessageError
from interpose.cri.methods import METHODS
from interpose.cri.parser import CriParser
from interpose.net.grpc.status import Code
from interpose.relay.api import CLIENT, Body, Call, Reply
from interpose.relay.status_rewriter import EventRewriter, StatusRewriter, corrected

LATER = b"\xba\x3e\x05later"  # a field nobody knows
EVENTS = METHODS["GetContainerEvents"]
C1 = Container(
    id="c1" + 62 * "0",
    pod_id="p1" + 62 * "0",
    resources=LinuxResources(cpu_shares=2, cpuset_cpus="0-1"),
    requested=LinuxResources(cpu_shares=512),
)
OTHER = "c2" + 62 * "0"

# A field, what the container has, what was asked for. Zero and empty are "not asked for".
SCALARS: list[tuple[str, Any, Any]] = [
    ("cpu_period", 50_000, 100_000),
    ("cpu_quota", 20_000, -1),
    ("cpu_quota", -1, 20_000),
    ("cpu_quota", -1, 0),
    ("cpu_shares", 2, 1024),
    ("cpu_shares", 2, 0),
    ("memory_limit_in_bytes", 1 << 40, 1 << 20),
    ("oom_score_adj", 0, -997),
    ("oom_score_adj", 999, 0),
    ("cpuset_cpus", "0-3,7", ""),
    ("cpuset_cpus", "", "0-1"),
    ("cpuset_mems", "1", "0"),
    ("memory_swap_limit_in_bytes", -1, 1 << 30),
]


def shown(resources: LinuxResources, container_id: str = C1.id) -> cri.ContainerStatus:
    """A status as a runtime reports these resources."""
    status = cri.ContainerStatus(id=container_id)
    status.resources.linux.SetInParent()
    linux = status.resources.linux
    for name in FIELDS:
        if name == "hugepage_limits":
            for size, limit in resources.hugepage_limits:
                linux.hugepage_limits.add(page_size=size, limit=limit)
        elif name == "unified":
            linux.unified.update(resources.unified)
        else:
            setattr(linux, name, getattr(resources, name))
    return status


def changed(has: LinuxResources, asked: LinuxResources) -> Container:
    """A container that got something else."""
    return Container(id=C1.id, resources=has, requested=asked)


# -- corrected


@pytest.mark.parametrize(("name", "has", "asked"), SCALARS)
def test_value_becomes_the_requested_one(name: str, has: Any, asked: Any) -> None:
    """Each kind of value; one that was not asked for is cleared. All the rest stays."""
    rest: dict[str, Any] = {"cpu_shares": 7, "memory_limit_in_bytes": 9}
    resources = LinuxResources(**rest | {name: has})
    requested = LinuxResources(**rest | {name: asked})
    status = shown(resources)
    assert corrected(status, changed(resources, requested))
    assert status == shown(requested)


def test_every_scalar_field_is_in_the_table() -> None:
    """A new field of resources needs a row above."""
    assert {name for name, _, _ in SCALARS} == set(FIELDS) - {"hugepage_limits", "unified"}


def test_unified_is_corrected_by_key() -> None:
    """Changed, added and dropped by us: put back. What the runtime shows beside it stays."""
    has = LinuxResources(unified={"memory.high": "1", "cpu.idle": "1", "same": "s"})
    asked = LinuxResources(unified={"memory.high": "max", "cpu.weight": "5", "same": "s"})
    status = shown(LinuxResources(unified={**has.unified, "runtime.own": "r"}))
    assert corrected(status, changed(has, asked))
    assert dict(status.resources.linux.unified) == {
        "memory.high": "max",
        "cpu.weight": "5",
        "same": "s",
        "runtime.own": "r",
    }


def test_huge_pages_are_corrected_by_size() -> None:
    """Order and other sizes stay; a limit of zero that was asked for is a limit."""
    has = LinuxResources(hugepage_limits=(("2MB", 4096), ("1GB", 1), ("64KB", 7)))
    asked = LinuxResources(hugepage_limits=(("2MB", 0), ("64KB", 7), ("32MB", 2)))
    status = shown(has)
    status.resources.linux.hugepage_limits.add(page_size="16GB", limit=3)
    assert corrected(status, changed(has, asked))
    limits = [(limit.page_size, limit.limit) for limit in status.resources.linux.hugepage_limits]
    assert limits == [("2MB", 0), ("64KB", 7), ("16GB", 3), ("32MB", 2)]


def test_order_of_huge_pages_is_no_difference() -> None:
    """The same limits in another order are nothing to correct."""
    has = LinuxResources(hugepage_limits=(("2MB", 1), ("1GB", 2)))
    asked = LinuxResources(hugepage_limits=(("1GB", 2), ("2MB", 1)))
    assert not corrected(shown(has), changed(has, asked))


def test_field_that_does_not_differ_is_the_runtimes() -> None:
    """Only what we changed is put back: whatever else the runtime says is true."""
    status = shown(LinuxResources(cpu_shares=2, cpuset_cpus="0-1", memory_limit_in_bytes=77, unified={"a": "b"}))
    assert corrected(status, C1)
    assert status == shown(LinuxResources(cpu_shares=512, memory_limit_in_bytes=77, unified={"a": "b"}))


def test_status_that_shows_the_request_already_is_unchanged() -> None:
    """For each kind of field; the caller may send the bytes that came."""
    has = LinuxResources(cpu_shares=2, unified={"a": "1", "b": "1"}, hugepage_limits=(("2MB", 1), ("1GB", 1)))
    asked = LinuxResources(cpu_shares=5, unified={"a": "2"}, hugepage_limits=(("2MB", 2),))
    assert not corrected(shown(asked), changed(has, asked))


@pytest.mark.parametrize(
    "status",
    [
        cri.ContainerStatus(id=C1.id),
        cri.ContainerStatus(id=C1.id, resources=cri.ContainerResources()),
        cri.ContainerStatus(
            id=C1.id, resources=cri.ContainerResources(windows=cri.WindowsContainerResources(cpu_shares=1))
        ),
    ],
    ids=["nothing", "empty", "windows"],
)
def test_runtime_that_reports_no_resources_stays_silent(status: cri.ContainerStatus) -> None:
    """We do not answer in its place."""
    before = status.SerializeToString()
    assert not corrected(status, C1)
    assert status.SerializeToString() == before


def test_unknown_fields_survive_at_every_depth() -> None:
    """A younger runtime says more than we know."""
    raw = shown(C1.resources).resources.linux.SerializeToString() + LATER
    status = cri.ContainerStatus.FromString(
        cri.ContainerStatus(
            id=C1.id, resources=cri.ContainerResources(linux=cri.LinuxContainerResources.FromString(raw))
        ).SerializeToString()
        + LATER
    )
    assert corrected(status, C1)
    assert status.SerializeToString().count(LATER) == 2


# -- the interceptor


class Runtime:
    """The end of a chain: answers with given bytes, and counts."""

    def __init__(self, method: str, answer: bytes, code: int = 0) -> None:
        self._method = METHODS[method]
        self._answer = answer
        self._code = code
        self.calls = 0
        self.reply: Reply | None = None

    async def proceed(self) -> Reply:
        """Once."""
        self.calls += 1
        body = Body(self._answer, CriParser(self._method.response)) if not self._code else None
        self.reply = Reply(code=self._code, message="text", body=body)
        return self.reply


async def report(
    method: str, request: Any, answer: bytes, *containers: Container, origin: str = CLIENT, code: int = 0
) -> bytes | None:
    """What comes back to the caller."""
    runtime = Runtime(method, answer, code)
    body = Body(request.SerializeToString(), CriParser(METHODS[method].request))
    call = Call(method=METHODS[method], path=b"/x", body=body, origin=origin)
    reply = await StatusRewriter(lambda: {one.id: one for one in containers}).intercept(call, runtime.proceed)
    assert reply is runtime.reply
    assert runtime.calls == 1
    return None if reply.body is None else reply.body.data()


def status_reply(*, container_id: str = C1.id) -> bytes:
    """A ContainerStatus reply with a field out of order and verbose info; re-encoding would show."""
    known = cri.ContainerStatusResponse(status=shown(C1.resources, container_id)).SerializeToString()
    return cri.ContainerStatusResponse(info={"info": '{"runtimeSpec":{}}'}).SerializeToString() + LATER + known


@pytest.mark.parametrize("length", [64, 12, 2])
async def test_container_status_shows_the_request(length: int) -> None:
    """By the whole id or the beginning of one; the verbose info is not touched."""
    request = cri.ContainerStatusRequest(container_id=C1.id[:length], verbose=True)
    reply = await report("ContainerStatus", request, status_reply(), C1)
    assert reply is not None
    assert LATER in reply
    message = cri.ContainerStatusResponse.FromString(reply)
    assert message.status == shown(C1.requested)
    assert message.info == {"info": '{"runtimeSpec":{}}'}


async def test_pod_status_shows_the_request_for_each_container_of_ours() -> None:
    """The container beside it keeps what the runtime says."""
    answer = cri.PodSandboxStatusResponse(
        status=cri.PodSandboxStatus(id=C1.pod_id),
        containers_statuses=[shown(C1.resources), shown(C1.resources, OTHER)],
    ).SerializeToString()
    reply = await report("PodSandboxStatus", cri.PodSandboxStatusRequest(pod_sandbox_id=C1.pod_id), answer, C1)
    assert reply is not None
    statuses = cri.PodSandboxStatusResponse.FromString(reply).containers_statuses
    assert list(statuses) == [shown(C1.requested), shown(C1.resources, OTHER)]


async def test_other_containers_are_not_even_parsed() -> None:
    """An answer that is no message at all comes back as it is, for containers and pods."""
    garbage = b"\xff\xff\xff"
    with pytest.raises(UnreadableMessageError):
        CriParser("ContainerStatusResponse").parse(garbage)
    request = cri.ContainerStatusRequest(container_id=OTHER)
    assert await report("ContainerStatus", request, garbage, C1) == garbage
    pod = cri.PodSandboxStatusRequest(pod_sandbox_id="p9")
    assert await report("PodSandboxStatus", pod, garbage, C1) == garbage


async def test_prefix_that_means_another_container_changes_nothing() -> None:
    """The runtime decides whose status it is; the bytes stay."""
    request = cri.ContainerStatusRequest(container_id="c")
    answer = status_reply(container_id=OTHER)
    assert await report("ContainerStatus", request, answer, C1) == answer


async def test_calls_of_our_own_see_the_truth() -> None:
    """Whoever rebuilds state needs what the container has."""
    request = cri.ContainerStatusRequest(container_id=C1.id)
    assert await report("ContainerStatus", request, status_reply(), C1, origin="store") == status_reply()


async def test_error_passes() -> None:
    """There is nothing to correct in it."""
    request = cri.ContainerStatusRequest(container_id=C1.id)
    assert await report("ContainerStatus", request, b"", C1, code=Code.NOT_FOUND) is None


async def test_reply_without_a_status_passes() -> None:
    """Odd, but the runtime's business."""
    request = cri.ContainerStatusRequest(container_id=C1.id)
    assert await report("ContainerStatus", request, LATER, C1) == LATER


async def test_unreadable_messages_pass() -> None:
    """An encoding nobody knows, on either side: no failure of ours."""
    containers = {C1.id: C1}
    readable = Body(
        cri.ContainerStatusRequest(container_id=C1.id).SerializeToString(), CriParser("ContainerStatusRequest")
    )
    hidden = Body(b"x", CriParser("ContainerStatusRequest"), unreadable="odd")
    for request, answer in ((hidden, readable), (readable, hidden)):
        reply = Reply(code=0, body=answer)

        async def proceed(reply: Reply = reply) -> Reply:
            return reply

        call = Call(method=METHODS["ContainerStatus"], path=b"/x", body=request)
        assert await StatusRewriter(lambda: containers).intercept(call, proceed) is reply


async def test_update_that_passed_meanwhile_counts() -> None:
    """The kubelet's last request is the one it knows when the answer comes."""
    containers: dict[str, Container] = {}

    async def proceed() -> Reply:
        containers[C1.id] = C1
        return Reply(code=0, body=Body(status_reply(), CriParser("ContainerStatusResponse")))

    request = Body(
        cri.ContainerStatusRequest(container_id=C1.id).SerializeToString(), CriParser("ContainerStatusRequest")
    )
    call = Call(method=METHODS["ContainerStatus"], path=b"/x", body=request)
    reply = await StatusRewriter(lambda: containers).intercept(call, proceed)
    assert reply.response.status == shown(C1.requested)


async def test_container_nobody_has_looked_up_is_corrected_by_its_annotation() -> None:
    """Between the start of a relay and the end of its first look at the runtime."""
    status = shown(LinuxResources(cpu_shares=2, cpu_period=100_000))
    status.annotations["interpose/requested"] = '{"cpu_shares":512}'
    other = shown(LinuxResources(cpu_shares=3), OTHER)
    other.annotations["interpose/requested"] = '{"cpu_shares":777}'
    response = cri.PodSandboxStatusResponse(containers_statuses=[status, other, cri.ContainerStatus(id="c3")])
    body = Body(b"", CriParser("PodSandboxStatusRequest"))
    call = Call(method=METHODS["PodSandboxStatus"], path=b"", body=body)

    async def proceed() -> Reply:
        return Reply(code=0, body=Body(response.SerializeToString(), CriParser("PodSandboxStatusResponse")))

    reporting = StatusRewriter(dict, lambda: {OTHER})
    reply = await reporting.intercept(call, proceed)
    shares = [one.resources.linux.cpu_shares for one in reply.response.containers_statuses]
    assert shares == [512, 3, 0]
    assert reply.response.containers_statuses[0].resources.linux.cpu_period == 100_000
    assert reporting.methods == ("ContainerStatus", "PodSandboxStatus")


def test_methods_while_something_diverges() -> None:
    """Status calls are the most frequent of all: they stay in the frame loop while there is nothing to correct."""
    containers: dict[str, Container] = {}
    reporting = StatusRewriter(lambda: containers)
    assert tuple(reporting.methods) == ()
    containers[C1.id] = C1
    assert set(reporting.methods) == {"ContainerStatus", "PodSandboxStatus"}


# -- events


def event(*statuses: cri.ContainerStatus) -> bytes:
    """An event with its fields out of order."""
    known = cri.ContainerEventResponse(containers_statuses=statuses).SerializeToString()
    return known + LATER + cri.ContainerEventResponse(container_id=C1.id).SerializeToString()


def test_event_shows_the_request() -> None:
    """For the container of ours; the other one and unknown fields stay."""
    out = EventRewriter(lambda: {C1.id: C1}).edit(EVENTS, event(shown(C1.resources), shown(C1.resources, OTHER)))
    assert LATER in out
    message = cri.ContainerEventResponse.FromString(out)
    assert message.container_id == C1.id
    assert list(message.containers_statuses) == [shown(C1.requested), shown(C1.resources, OTHER)]


def test_event_of_others_is_the_bytes_that_came() -> None:
    """Also for one of ours that needs no correction."""
    editor = EventRewriter(lambda: {C1.id: C1})
    for message in (event(shown(C1.resources, OTHER)), event(shown(C1.requested)), event()):
        assert editor.edit(EVENTS, message) is message


def test_event_is_not_parsed_while_nothing_diverges() -> None:
    """Whatever it is."""
    assert EventRewriter(dict).edit(EVENTS, b"\xff\xff") == b"\xff\xff"


def test_events_are_always_subscribed() -> None:
    """A subscription to events outlives every change of ours."""
    assert set(EventRewriter(dict).methods) == {"GetContainerEvents"}
