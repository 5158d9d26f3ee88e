"""A FakeRuntime whose calls are written down as a relay would record them."""

from collections.abc import Iterable
from typing import Any, Final

from interpose._pb import cri_pb2 as cri
from interpose.dump.model.call import Assembler, CallEventKind, Flow
from interpose.dump.model.frames import Begin, End, Frame, Message
from interpose.dump.model.subject import Subjects
from interpose.dump.replay.selection import RecordedCall, recorded_calls
from interpose.net.grpc.status import RpcError
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import container_config, create_request, pod_config, run_request
from interpose.testing.recordings import Script

_MS: Final = 1.25


class RecordedNode:
    """Calls in the same process; `script.frames` is the recording of them."""

    def __init__(self, runtime: FakeRuntime | None = None, script: Script | None = None) -> None:
        self.runtime = runtime or FakeRuntime()
        self.script = script or Script()
        self._pause = _MS

    async def call(self, name: str, request: Any, *, elapsed: float = _MS, **more: Any) -> Any:
        """Make a call and write it down, as one that began after the one before had ended; None if it failed."""
        more = {"gap": self._pause} | more
        self._pause = elapsed + _MS
        try:
            reply = await self.runtime.call(name, request)
        except RpcError as error:
            self.script.call(name, request, elapsed=elapsed, code=error.code, message=error.message, **more)
            return None
        self.script.call(name, request, reply, elapsed=elapsed, **more)
        return reply

    async def start_pod(self, name: str, *containers: str, namespace: str = "default") -> tuple[str, list[str]]:
        """A pod with running containers, as a kubelet starts it; the ids."""
        pod = pod_config(name, namespace)
        sandbox: str = (await self.call("RunPodSandbox", run_request(pod), elapsed=180)).pod_sandbox_id
        ids = []
        for container in containers:
            request = create_request(sandbox, pod, container_config(pod, container))
            ids.append((await self.call("CreateContainer", request, elapsed=40)).container_id)
            await self.call("StartContainer", cri.StartContainerRequest(container_id=ids[-1]), elapsed=60)
        return sandbox, ids

    async def look(self, container_id: str) -> None:
        """Ask for the state of a container, as a kubelet does when something ended."""
        await self.call("ContainerStatus", cri.ContainerStatusRequest(container_id=container_id))

    async def remove_pod(self, sandbox: str) -> None:
        """Stop a pod and remove it."""
        await self.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=sandbox), elapsed=90)
        await self.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox), elapsed=30)


def flows_of(frames: Iterable[Frame]) -> list[Flow]:
    """The calls in frames, those that ended first, with whom they are about."""
    subjects = Subjects()
    assembler = Assembler(subjects.identify)
    events = assembler.feed_all(list(frames))
    return [event.flow for event in events if event.kind is CallEventKind.END and event.flow] + [
        *assembler.open.values()
    ]


def calls_of(frames: Iterable[Frame]) -> list[RecordedCall]:
    """The same with their places, in the order in which a relay would have written the frames."""
    return list(recorded_calls(as_happened(frames), Subjects().identify))


def as_happened(frames: Iterable[Frame]) -> list[Frame]:
    """Frames by their times; a Script writes each call as a whole."""
    begun: dict[int, int] = {}
    timed: list[tuple[int, Frame]] = []
    last = 0
    for frame in frames:
        if isinstance(frame, Begin):
            last = begun[frame.number] = frame.time
        elif isinstance(frame, Message | End) and frame.number in begun:
            last = begun[frame.number] + (frame.at if isinstance(frame, Message) else frame.elapsed)
        timed.append((last, frame))
    return [frame for _time, frame in sorted(timed, key=lambda one: one[0])]
