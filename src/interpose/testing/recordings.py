"""Recordings made without a relay: a story of two pods, and every CRI method with all its fields filled.

The same call gives the same frames. `Script` writes the frames of calls; `filled` fills any message; `sample_recording`
is the story as a file, `every_method_frames` the methods in both API versions.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from interpose._pb import cri_pb2 as cri
from interpose.cri.methods import API_VERSIONS, METHODS
from interpose.dump.model.call import SESSION
from interpose.dump.model.frames import VERSION, Begin, End, Flags, Frame, Header, Message, MessageSide, encode
from interpose.testing.pods import container_config, create_request, linux_resources, pod_config, run_request

START: Final = 1_763_283_600_000_000_000  # 2025-11-16T09:00:00Z
KUBELET_PID: Final = 812
METADATA: Final = (("user-agent", "grpc-go/1.72.1"),)
HEADER: Final = Header(
    facts={
        "version": VERSION,
        SESSION: "sample",
        "created": "2025-11-16T09:00:00Z",
        "host": "node-1",
        "interpose": "0.0",
        "redaction": "default",
        "backend": "unix:///run/containerd/containerd.sock",
    }
)
_MS: Final = 1_000_000
_MAX_DEPTH: Final = 8


class Script:
    """Writes frames call by call; each call begins `gap` milliseconds after the one before."""

    def __init__(self, *, header: Header | None = HEADER, start: int = START) -> None:
        self.frames: list[Frame] = [] if header is None else [header]
        self.now = start
        self._number = 0

    def begin(
        self,
        name: str,
        request: Any,
        *,
        version: str = API_VERSIONS[0],
        origin: str = "client",
        intercepted: bool = False,
        gap: float = 5.0,
    ) -> int:
        """A call that comes with its request; its number."""
        self._number += 1
        self.now += int(gap * _MS)
        method = METHODS.get(name)
        service = method.service if method else "RuntimeService"
        self.frames.append(
            Begin(
                number=self._number,
                time=self.now,
                path=f"/{version}.{service}/{name}",
                origin=origin,
                pid=KUBELET_PID if origin == "client" else 0,
                flags=Flags.INTERCEPTED if intercepted else Flags.NONE,
                metadata=METADATA if origin == "client" else (),
            )
        )
        self.message(self._number, MessageSide.REQUEST, request)
        return self._number

    def message(self, number: int, side: MessageSide, message: Any, at: float = 0.0) -> None:
        """A message of a call, as bytes or as it is."""
        body = message if isinstance(message, bytes) else message.SerializeToString(deterministic=True)
        self.frames.append(Message(number=number, at=int(at * _MS), side=side, size=len(body), body=body))

    def end(self, number: int, elapsed: float, code: int = 0, message: str = "", by: Sequence[str] = ()) -> None:
        """A call is over, after so many milliseconds."""
        self.frames.append(
            End(number=number, elapsed=int(elapsed * _MS), code=code, message=message, changed_by=tuple(by))
        )

    def call(
        self,
        name: str,
        request: Any,
        *replies: Any,
        forwarded: Any = None,
        received: Any = None,
        elapsed: float = 1.25,
        code: int = 0,
        message: str = "",
        by: Sequence[str] = (),
        version: str = API_VERSIONS[0],
        origin: str = "client",
        gap: float = 5.0,
    ) -> int:
        """A whole call; its number."""
        changed = forwarded is not None or received is not None
        number = self.begin(
            name, request, version=version, origin=origin, intercepted=changed or origin != "client", gap=gap
        )
        if forwarded is not None:
            self.message(number, MessageSide.FORWARDED, forwarded, elapsed / 4)
        if received is not None:
            self.message(number, MessageSide.RECEIVED, received, elapsed * 3 / 4)
        for index, reply in enumerate(replies, 1):
            self.message(number, MessageSide.REPLY, reply, elapsed * index / len(replies))
        self.end(number, elapsed, code, message, by)
        return number


# -- every method


def filled(name: str) -> Any:
    """A message of this type with something in every field; of a oneof the last is set."""
    message = getattr(cri, name)()
    _fill(message, _MAX_DEPTH)
    return message


def _fill(message: Any, depth: int) -> None:
    for field in message.DESCRIPTOR.fields:
        kind = field.message_type
        if kind is not None and depth == 0:
            continue
        if kind is not None and kind.GetOptions().map_entry:
            _fill_map(getattr(message, field.name), kind, depth)
        elif field.is_repeated:
            values = getattr(message, field.name)
            if kind is not None:
                _fill(values.add(), depth - 1)
            else:
                values.extend([_scalar(field), _scalar(field)])
        elif kind is not None:
            inner = getattr(message, field.name)
            inner.SetInParent()
            _fill(inner, depth - 1)
        else:
            setattr(message, field.name, _scalar(field))


def _fill_map(target: Any, kind: Any, depth: int) -> None:
    key, value = kind.fields_by_name["key"], kind.fields_by_name["value"]
    if value.message_type is not None:
        _fill(target[_scalar(key)], depth - 1)
    else:
        target[_scalar(key)] = _scalar(value)


def _scalar(field: Any) -> Any:
    """Something that is not the default and says where it is from."""
    if field.enum_type is not None:
        return field.enum_type.values[-1].number
    return {
        field.CPPTYPE_STRING: field.name.encode() if field.type == field.TYPE_BYTES else f"a-{field.name}",
        field.CPPTYPE_BOOL: True,
        field.CPPTYPE_DOUBLE: field.number + 0.5,
        field.CPPTYPE_FLOAT: field.number + 0.5,
    }.get(field.cpp_type, field.number + 1000)


def every_method_frames() -> list[Frame]:
    """A header, and one call of every method in both API versions; streams have two replies."""
    script = Script()
    for version in API_VERSIONS:
        for method in METHODS.values():
            replies = [filled(method.response)] * (2 if method.server_streaming else 1)
            script.call(method.name, filled(method.request), *replies, version=version)
    return script.frames


# -- a story


def story_frames() -> list[Frame]:
    """Two pods come up on a node with a hook server and a policy; one of them fails and goes.

    There is a changed create, an originated update, a changed reply, errors, a stream, a v1alpha2 call, a method nobody
    knows and a call that never ends.
    """
    script = Script()
    version = cri.VersionResponse(
        version="0.1.0", runtime_name="containerd", runtime_version="2.1.4", runtime_api_version="v1"
    )
    script.call("Version", cri.VersionRequest(version="0.1.0"), version, elapsed=0.4)
    script.call("Version", cri.VersionRequest(version="0.1.0"), version, version="runtime.v1alpha2", elapsed=0.5)
    events = script.begin("GetContainerEvents", cri.GetEventsRequest())
    _web(script, events)
    _batch(script, events)
    script.call("ListContainers", cri.ListContainersRequest(), cri.ListContainersResponse(), elapsed=0.9, gap=800)
    script.call("MakeCoffee", b"\x0a\x05black", code=12, message="unknown method MakeCoffee", elapsed=0.2)
    script.begin("StopContainer", cri.StopContainerRequest(container_id=_id("c2"), timeout=30))
    return script.frames


def _id(seed: str) -> str:
    """An id as containerd makes them."""
    return (seed.encode().hex() * 64)[:64]


def _web(script: Script, events: int) -> None:
    pod, sandbox, container = pod_config("web-0", "shop"), _id("p1"), _id("c1")
    script.call(
        "RunPodSandbox", run_request(pod), cri.RunPodSandboxResponse(pod_sandbox_id=sandbox), elapsed=182.4, gap=40
    )
    _event(script, events, sandbox, cri.CONTAINER_CREATED_EVENT, 240)
    image = cri.ImageSpec(image="registry.example/web:3")
    auth = cri.AuthConfig(username="puller", password="hunter2")
    pull = cri.PullImageRequest(image=image, auth=auth, sandbox_config=pod)
    script.call("ImageStatus", cri.ImageStatusRequest(image=image), cri.ImageStatusResponse(), elapsed=0.7)
    script.call("PullImage", pull, cri.PullImageResponse(image_ref="sha256:" + _id("im")), elapsed=2310.0)
    config = container_config(
        pod, "app", image=image.image, envs={"DB_PASSWORD": "hunter2"}, resources=linux_resources(cpu_limit=2000)
    )
    asked = create_request(sandbox, pod, config)
    given = create_request(sandbox, pod, config)
    given.config.linux.resources.cpuset_cpus = "2-3"
    given.config.annotations["interpose/grant"] = "cpus=2-3"
    created = cri.CreateContainerResponse(container_id=container)
    script.call("CreateContainer", asked, created, forwarded=given, by=("koordlet", "static"), elapsed=48.1, gap=2400)
    script.call(
        "StartContainer", cri.StartContainerRequest(container_id=container), cri.StartContainerResponse(), elapsed=61.0
    )
    _event(script, events, container, cri.CONTAINER_STARTED_EVENT, 3100)
    update = cri.UpdateContainerResourcesRequest(
        container_id=container, linux=cri.LinuxContainerResources(cpuset_cpus="0-1")
    )
    script.call(
        "UpdateContainerResources", update, cri.UpdateContainerResourcesResponse(), origin="policy", elapsed=9.6, gap=90
    )
    real = cri.ContainerStatusResponse(status=cri.ContainerStatus(id=container, state=cri.CONTAINER_RUNNING))
    real.status.metadata.name = "app"
    real.status.resources.linux.CopyFrom(given.config.linux.resources)
    shown = cri.ContainerStatusResponse()
    shown.CopyFrom(real)
    shown.status.resources.linux.CopyFrom(asked.config.linux.resources)
    script.call(
        "ContainerStatus",
        cri.ContainerStatusRequest(container_id=container),
        shown,
        received=real,
        by=("reporting",),
        elapsed=2.2,
        gap=500,
    )
    run = cri.ExecSyncRequest(container_id=container, cmd=["cat", "/ready"], timeout=1)
    script.call("ExecSync", run, cri.ExecSyncResponse(stdout=b"yes\n"), elapsed=31.5, gap=1000)


def _batch(script: Script, events: int) -> None:
    pod, sandbox, container = pod_config("batch-7f9c", "jobs", qos="besteffort"), _id("p2"), _id("c2")
    script.call(
        "RunPodSandbox", run_request(pod), cri.RunPodSandboxResponse(pod_sandbox_id=sandbox), elapsed=211.7, gap=900
    )
    request = create_request(sandbox, pod, container_config(pod, "worker"))
    script.call(
        "CreateContainer",
        request,
        code=5,
        message='failed to get image "docker.io/library/busybox:1.36": not found',
        elapsed=3.9,
        gap=250,
    )
    created = cri.CreateContainerResponse(container_id=container)
    script.call("CreateContainer", request, created, elapsed=44.0, gap=1500)
    script.call(
        "StartContainer", cri.StartContainerRequest(container_id=container), cri.StartContainerResponse(), elapsed=57.3
    )
    _event(script, events, container, cri.CONTAINER_STARTED_EVENT, 8200)
    status = cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox)
    reply = cri.PodSandboxStatusResponse(
        status=cri.PodSandboxStatus(id=sandbox, metadata=pod.metadata, state=cri.SANDBOX_READY)
    )
    script.call("PodSandboxStatus", status, reply, elapsed=1.1)
    script.call(
        "ExecSync",
        cri.ExecSyncRequest(container_id=container, cmd=["cat", "/ready"], timeout=1),
        code=4,
        message="command timed out",
        elapsed=1000.6,
        gap=700,
    )


def _event(script: Script, number: int, subject: str, kind: Any, at: float) -> None:
    event = cri.ContainerEventResponse(container_id=subject, container_event_type=kind)
    script.message(number, MessageSide.REPLY, event, at)


# -- files


def write_recording(path: Path, frames: Iterable[Frame]) -> Path:
    """Frames as a file, without an index."""
    path.write_bytes(b"".join(map(encode, frames)))
    return path


def sample_recording(path: Path) -> Path:
    """The story as a file."""
    return write_recording(path, story_frames())
