"""Which CRI call a call of Docker's API is, if any.

A create names the pod of its container, or the labels of its image do; for everything else dockerd is asked, unless the
identity is cached. A call about another container is no CRI call, and passes. A container of Kubernetes that is named
by anything but its whole id is named by that to dockerd: what was looked at is what is acted on.

What cannot be read is never a way around a hook server that must see the call. A body that dockerd may understand and
we do not (a key given twice) and that may be about Kubernetes, and a container whose identity dockerd does not tell,
become calls with an unreadable message, of every method they may be: interceptors refuse those or let them pass, and
none is taken for a call about a container that is not of Kubernetes.

Large bodies are read and edited in a thread: other calls go on meanwhile.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from interpose.core.model.kubernetes_names import LABEL_PREFIX
from interpose.cri.methods import METHODS
from interpose.cri.parser import CriParser
from interpose.net.grpc.status import RpcError
from interpose.relay.docker.cri_adapter import DockerRuntime
from interpose.relay.docker.http_call import DockerHttpCall
from interpose.relay.docker.routes import METHODS_OF, DockerOperation, kills, operation_of, parameters, renamed
from interpose.relay.docker.translate import create
from interpose.relay.docker.translate.body import EditedBody
from interpose.relay.docker.translate.json_edit import BodyTooLargeToReadError, UnreadableBodyError
from interpose.relay.docker.translate.labels import DockerIdentity

# Seconds; more than CRI's int64 takes is as good as for ever.
_LONGEST_GRACE: Final = 1 << 40
_MOST_DIGITS: Final = 12
_DIGITS: Final = re.compile("[0-9]+")
# Bytes of a body that take about a millisecond. A thread costs a tenth of that; creates have a few kilobytes.
_LARGE: Final = 64 * 1024

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CriCall:
    """A CRI call. With more than one method it is unreadable, and may be any of them."""

    operation: DockerOperation
    methods: tuple[str, ...]
    identity: DockerIdentity | None = None  # of a create without an id yet; None: unknown
    message: bytes = b""
    unreadable: str = ""
    understood: bool = False  # dockerd may well understand what is unreadable here; else the identity is unknown
    edit: Callable[[Any], EditedBody] | None = None  # from the message as it left the chain to Docker's body


async def aside(body: bytes, work: Callable[[], _T]) -> _T:
    """Do something with a body: at once, or in a thread if there is so much of it that others would have to wait."""
    return work() if len(body) < _LARGE else await asyncio.to_thread(work)


async def to_cri_call(call: DockerHttpCall, runtime: DockerRuntime) -> CriCall | None:
    """What the call is to interceptors; None: nothing, it passes. BodyTooLarge: it does not even pass."""
    operation = operation_of(call.head)
    if operation is None:
        return None
    if operation is DockerOperation.CREATE:
        return await _creation(call, runtime)
    readings = parameters(call.head, call.body)
    killing = {kills(reading) for reading in readings} if operation is DockerOperation.KILL else {True}
    if killing == {False}:
        return None
    try:
        identity = await runtime.find_identity(call.head.route.ref)
    except RpcError as error:
        return _unreadable(operation, f"dockerd does not say whose container it is: {error}")
    if identity is None:
        return None
    if identity.id != call.head.route.ref:
        call.target = renamed(call.head, identity.id)
    if not _methods(operation, identity):
        return None
    if operation is DockerOperation.RESET:
        return _unreadable(operation, "a start with a body sets anew what the container is to have", identity)
    if len(killing) > 1:
        return _unreadable(operation, "its form and its query have different signals", identity)
    if operation is DockerOperation.UPDATE:
        return await aside(call.body, lambda: _update(call, identity))
    return _of_object(operation, identity, readings[0])


async def _creation(call: DockerHttpCall, runtime: DockerRuntime) -> CriCall | None:
    body, params = call.body, call.head.route.params
    try:
        creation = await aside(body, lambda: create.read_create(body, params))
        if creation is None and (image := await aside(body, lambda: create.image_named(body))):
            labels = await runtime.labels_of_image(image)
            if any(key.startswith(LABEL_PREFIX) for key in labels):
                creation = await aside(body, lambda: create.read_create(body, params, labels))
    except BodyTooLargeToReadError:
        raise
    except UnreadableBodyError as error:
        return _unreadable(DockerOperation.CREATE, str(error), understood=True)
    except RpcError as error:
        return _unreadable(DockerOperation.CREATE, f"dockerd does not say which labels the image has: {error}")
    if creation is None:
        return None
    found = creation
    made = await aside(body, lambda: _readable(DockerOperation.CREATE, found.identity, found.fill))
    return replace(made, edit=lambda after: found.edited(_parsed(made), after))


def _update(call: DockerHttpCall, identity: DockerIdentity) -> CriCall:
    try:
        update = create.read_update(call.body)
    except BodyTooLargeToReadError:
        raise
    except UnreadableBodyError as error:
        return _unreadable(DockerOperation.UPDATE, str(error), identity)
    made = _readable(DockerOperation.UPDATE, identity, lambda message: update.fill(message, identity.id))
    return replace(made, edit=lambda after: update.edited(_parsed(made), after))


def _of_object(operation: DockerOperation, identity: DockerIdentity, params: Mapping[str, str]) -> CriCall:
    def fill(message: Any) -> None:
        if identity.sandbox:
            message.pod_sandbox_id = identity.id
            return
        message.container_id = identity.id
        if operation is DockerOperation.STOP and _DIGITS.fullmatch(grace := params.get("t", "")):
            grace = grace.lstrip("0")
            message.timeout = int(grace or 0) if len(grace) <= _MOST_DIGITS else _LONGEST_GRACE

    return _readable(operation, identity, fill)


def _readable(operation: DockerOperation, identity: DockerIdentity, fill: Callable[[Any], None]) -> CriCall:
    (method,) = _methods(operation, identity)
    parser = CriParser(METHODS[method].request)
    message = parser.parse(b"")
    fill(message)
    return CriCall(operation=operation, methods=(method,), identity=identity, message=parser.serialize(message))


def _methods(operation: DockerOperation, identity: DockerIdentity | None) -> tuple[str, ...]:
    """What it may be; empty if there is nothing like it for sandboxes."""
    return tuple(
        name for name in METHODS_OF[operation] if identity is None or identity.sandbox is name.endswith("PodSandbox")
    )


def _parsed(made: CriCall) -> Any:
    """The message as it was built, in a copy of its own."""
    return CriParser(METHODS[made.methods[0]].request).parse(made.message)


def _unreadable(
    operation: DockerOperation, why: str, identity: DockerIdentity | None = None, *, understood: bool = False
) -> CriCall:
    return CriCall(
        operation=operation,
        methods=_methods(operation, identity),
        identity=identity,
        unreadable=why,
        understood=understood or identity is not None,
    )
