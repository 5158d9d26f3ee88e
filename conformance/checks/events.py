"""Container events, and messages as large as they may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.bench import eventually
from conformance.points import Group, Point
from interpose._pb import cri_pb2 as cri
from tests.support.lab.cri import CriClient, EventListener

if TYPE_CHECKING:
    from conformance.bench import Bench

_LARGE = 12 << 20
_TOO_LARGE = 17 << 20


def _listen(bench: Bench) -> EventListener:
    if (code := bench.client.outcome("GetContainerEvents", timeout=0.2).code) != "DEADLINE_EXCEEDED":
        raise AssertionError(f"GetContainerEvents: {code}")
    listener = EventListener(bench.client)
    bench.later(listener.close)

    def has_event() -> bool:
        if listener.code:
            raise AssertionError(f"the stream of events ended with {listener.code}")
        bench.pod().remove()
        return bool(listener.events)

    # Pods come and go until there is one: nothing else says that the stream has begun.
    eventually(has_event, "the stream of events to begin")
    return listener


def life(bench: Bench) -> None:
    listener = _listen(bench)
    pod = bench.pod()
    container = pod.run_container()
    container.stop()
    container.remove()
    pod.stop()
    pod.remove()
    wanted = [
        cri.CONTAINER_CREATED_EVENT,
        cri.CONTAINER_STARTED_EVENT,
        cri.CONTAINER_STOPPED_EVENT,
        cri.CONTAINER_DELETED_EVENT,
    ]
    eventually(lambda: len(listener.kinds(pod.id)) >= len(wanted), "the events of the pod")
    assert listener.kinds(container.id) == wanted
    assert listener.kinds(pod.id) == wanted


def content(bench: Bench) -> None:
    listener = _listen(bench)
    container = bench.pod().run_container("/bin/sh", "-c", "exit 4")
    container.ended()
    eventually(lambda: len(listener.of(container.id)) >= 3, "the end of the container")
    event = listener.of(container.id)[-1]
    assert event.container_event_type == cri.CONTAINER_STOPPED_EVENT
    assert event.created_at > 0
    assert event.pod_sandbox_status.metadata == container.pod.config.metadata
    assert [(status.id, status.exit_code) for status in event.containers_statuses] == [(container.id, 4)]


def everybody(bench: Bench) -> None:
    first, second = _listen(bench), _listen(bench)
    container = bench.container("/bin/true")
    eventually(lambda: len(first.of(container.id)) >= 3, "all events")
    eventually(lambda: len(second.of(container.id)) >= 3, "all events for the other one, too")


def large_request(bench: Bench) -> None:
    pod = bench.pod()
    annotations = {f"a{number}": "x" * (1 << 20) for number in range(_LARGE >> 20)}
    config = pod.configure("/bin/true")
    config.annotations.update(annotations)
    container = pod.create_configured(config)
    assert len(container.status().annotations["a0"]) == 1 << 20
    container.remove()


def too_large_request(bench: Bench) -> None:
    outcome = bench.client.outcome("Version", b"\x0a\xff\xff\xff\x07" + b"x" * _TOO_LARGE)
    assert outcome.code == "RESOURCE_EXHAUSTED", outcome.code
    assert bench.code("Version") == "OK"


def connections(bench: Bench) -> None:
    clients = [CriClient(bench.world.socket) for _ in range(60)]
    try:
        assert {client.call("Version").version for client in clients} == {"0.1.0"}
    finally:
        for client in clients:
            client.channel.close()


GROUPS = (
    Group(
        name="Events",
        about="GetContainerEvents, as evented kubelets use it",
        points=(
            Point(name="created, started, stopped, deleted: of containers and of sandboxes", check=life),
            Point(name="an event shows the pod and all of its containers", check=content),
            Point(name="every subscriber hears everything", check=everybody),
        ),
    ),
    Group(
        name="Limits",
        about="sizes and numbers",
        points=(
            Point(name="a request of 12 MiB", check=large_request, alone=True),
            Point(name="a request of more than 16 MiB is RESOURCE_EXHAUSTED", check=too_large_request),
            Point(name="many connections of clients that stay", check=connections),
        ),
    ),
)
