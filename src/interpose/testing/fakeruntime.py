"""FakeRuntime: a container runtime without containers, answering every CRI method from state in memory.

It behaves as a mature runtime (current containerd where runtimes differ), records what it was asked, and fails, waits
or stands still on demand. Ids come from a seeded generator and time from a given clock, so a run can be repeated
exactly. Belongs to one event loop. It is a `cri.caller.Caller`, and can be served (`handlers`).
"""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from google.protobuf.message import Message

from interpose._pb import cri_pb2 as cri
from interpose.cri import server
from interpose.net.grpc.handlers import Handlers
from interpose.net.grpc.status import Code, RpcError
from interpose.tasks import TaskBag
from interpose.testing.changes import Changes
from interpose.testing.failpoints import Failpoints, Stall, When
from interpose.testing.pods import BUSYBOX, container_config, pod_config
from interpose.testing.runtime import views
from interpose.testing.runtime.events import EventHub
from interpose.testing.runtime.exec import Execution, Shell, run_builtin
from interpose.testing.runtime.image_service import FakeImageService
from interpose.testing.runtime.images import Credentials, ImageStore
from interpose.testing.runtime.lifecycle import Health, Lifecycle
from interpose.testing.runtime.methods import Methods, StreamMethod, UnaryMethod
from interpose.testing.runtime.queries import FakeIdentity, Queries
from interpose.testing.runtime.state import FakeContainer, FakeSandbox, NodeState, Observer

PAUSE = "registry.k8s.io/pause:3.10"


class FakeRuntime:
    """A stateful fake of both CRI services."""

    def __init__(
        self,
        *,
        seed: int = 0,
        clock: Callable[[], int] = time.time_ns,
        identity: FakeIdentity | None = None,
        images: Iterable[str] = (PAUSE, BUSYBOX),
        credentials: Mapping[str, Credentials] | None = None,
        shell: Shell = run_builtin,
        stream_batch: int = 100,
        record_limit: int = 10_000,
        event_backlog: int = 10_000,
        observer: Observer | None = None,
    ) -> None:
        """`clock` gives nanoseconds; `credentials` are asked for by registry host; `shell` answers ExecSync."""
        identity = identity or FakeIdentity()
        rng = random.Random(seed)
        self._clock = clock
        self._observer = observer
        self.health = Health()
        self.events = EventHub(event_backlog)
        self.images = ImageStore(images, credentials)
        self.state = NodeState(rng, clock, self._publish)
        lifecycle = Lifecycle(self.state, self.images, self.health, identity.runtime_handlers, observer)
        queries = Queries(self.state, self.health, identity, self.events, clock, stream_batch)
        execution = Execution(self.state, rng, shell)
        self._methods: Methods = {
            **lifecycle.methods(),
            **queries.methods(),
            **execution.methods(),
            **FakeImageService(self.images, clock, stream_batch).methods(),
        }
        self._failpoints = Failpoints(self._methods)
        self._begun = TaskBag()
        # Counted and recorded as they arrive, before any failpoint.
        self.calls: Counter[str] = Counter()
        self.requests: deque[tuple[str, Message]] = deque(maxlen=record_limit)
        self._arrivals = Changes()
        self._populated = 0

    # -- what a test can tell it -------------------------------------------------------------------------------------

    def fail(
        self, method: str, code: Code, message: str = "", times: int | None = None, when: When | str = When.BEFORE
    ) -> None:
        """Answer the next `times` calls (all, if None) with this status, before or after doing the work."""
        self._failpoints.fail(method, code, message, times, when)

    def delay(self, method: str, seconds: float, when: When | str = When.BEFORE) -> None:
        """Make every call of a method take longer; 0 ends it."""
        self._failpoints.delay(method, seconds, when)

    def stall(self, method: str, when: When | str = When.BEFORE) -> Stall:
        """Hold every call of a method until the stall is released."""
        return self._failpoints.stall(method, when)

    def clear(self, method: str | None = None) -> None:
        """Remove the failpoints of a method, or all."""
        self._failpoints.clear(method)

    def exit_container(self, container_id: str, code: int = 0, reason: str = "", message: str = "") -> None:
        """The process in a container ends by itself."""
        self.state.exit_container(self.state.container(container_id), code, reason, message)

    def populate(self, pods: int, containers_per_pod: int = 1) -> list[FakeSandbox]:
        """Add running pods, past recording and failpoints; may be called again for more."""
        image = self.images.pull(BUSYBOX, cri.AuthConfig())
        sandboxes = []
        for number in range(self._populated, self._populated + pods):
            app = f"load-{number:04}"
            config = pod_config(
                f"{app}-6d4cf56db6-x{number % 1000:03}",
                "production",
                labels={"app.kubernetes.io/name": app, "pod-template-hash": "6d4cf56db6"},
                annotations={"kubernetes.io/config.source": "api", "prometheus.io/scrape": "true"},
            )
            sandbox = self.state.run_sandbox(config, "runc")
            for index in range(containers_per_pod):
                container = container_config(config, f"{app}-container-{index}")
                self.state.start_container(self.state.create_container(sandbox, container, image))
            sandboxes.append(sandbox)
        self._populated += pods
        return sandboxes

    async def wait_for_calls(self, method: str, count: int = 1) -> None:
        """Return when this many calls of a method have arrived."""
        if method not in self._methods:
            raise ValueError(f"unknown method {method!r}")
        await self._arrivals.until(lambda: self.calls[method] >= count)

    def requests_of(self, method: str) -> list[Any]:
        """The recorded requests of one method, oldest first."""
        return [message for name, message in self.requests if name == method]

    # -- what can be asked of it -------------------------------------------------------------------------------------

    @property
    def containers(self) -> Mapping[str, FakeContainer]:
        """The containers by id."""
        return self.state.containers

    @property
    def sandboxes(self) -> Mapping[str, FakeSandbox]:
        """The sandboxes by id."""
        return self.state.sandboxes

    async def call(self, method: str, request: Message, *, timeout: float | None = None) -> Any:
        """A unary call in the same process; raises RpcError as a client would. Deadlines are the caller's business:
        a runtime does not look at them."""
        definition = self._methods.get(method)
        if not isinstance(definition, UnaryMethod):
            raise RpcError(Code.UNIMPLEMENTED, f"unknown method {method}")
        self._record(method, request)
        await self._failpoints.enter(method, When.BEFORE)
        answer: Message | RpcError
        if definition.begin is None:
            answer = definition.run(request)
        else:
            definition.begin(request)
            answer = await asyncio.shield(self._begun.spawn(self._end(method, definition, request), name=method))
            if isinstance(answer, RpcError):
                raise answer
        await self._failpoints.enter(method, When.AFTER)
        return answer

    async def _end(self, method: str, definition: UnaryMethod, request: Message) -> Message | RpcError:
        """The second step of a method, and what its caller gets if it is still there."""
        try:
            await self._failpoints.enter(method, When.DURING)
            return definition.run(request)
        except RpcError as error:
            return error

    async def stream(
        self,
        method: str,
        request: Message,
        *,
        timeout: float | None = None,
    ) -> AsyncGenerator[Any, None]:
        """A server-streaming call in the same process."""
        definition = self._methods.get(method)
        if not isinstance(definition, StreamMethod):
            raise RpcError(Code.UNIMPLEMENTED, f"unknown method {method}")
        self._record(method, request)
        await self._failpoints.enter(method, When.BEFORE)
        # Closed here and now: a caller that leaves must not keep a subscription open until the next collection.
        async with aclosing(definition.run(request)) as answers:
            async for answer in answers:
                yield answer
        await self._failpoints.enter(method, When.AFTER)

    def handlers(self, versions: Iterable[str] = ("v1", "v1alpha2"), without: Collection[str] = ()) -> Handlers:
        """Handlers for a server. `without` leaves methods out, as an older runtime would."""
        unknown = sorted(set(without) - set(self._methods))
        if unknown:
            raise ValueError(f"handlers: without names unknown methods: {', '.join(unknown)}")
        return server.handlers(self, methods=sorted(set(self._methods) - set(without)), versions=versions)

    def _record(self, method: str, request: Message) -> None:
        copy = type(request)()
        copy.CopyFrom(request)
        self.calls[method] += 1
        self.requests.append((method, copy))
        self._arrivals.notify()

    def _publish(self, kind: "cri.ContainerEventType", object_id: str, sandbox: FakeSandbox | None) -> None:
        if self._observer is not None:
            self._observer.changed(kind, object_id, sandbox)
        # An event shows the whole pod: not worth building for nobody.
        if self.events.subscribers:
            self.events.publish(views.event(self.state, kind, object_id, sandbox, self._clock()))
