"""Which CRI call a call of Docker's API is, if any.

A create says itself whose container it makes; for everything else dockerd is asked, unless we know. What is nobody's
business becomes nothing, and passes.

What cannot be read is never a way around a hook server that must see the call. A body that dockerd may understand and
we do not (a key given twice) and that may be about Kubernetes, and a container of which dockerd does not say whose it
is, become calls with an unreadable message, of every method they may be: interceptors refuse those or let them pass,
and nobody takes them for calls about somebody else. A body in which no label of Kubernetes can be is not held up.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from interpose.relay.docker import creating, updating
from interpose.relay.docker.bodies import Edited
from interpose.relay.docker.httpcall import HttpCall
from interpose.relay.docker.jsontext import UnreadableBody
from interpose.relay.docker.labels import Identity
from interpose.relay.docker.routes import METHODS_OF, Act
from interpose.relay.docker.runtime import DockerRuntime
from interpose.relay.messages import CriParser
from interpose.relay.methods import METHODS
from interpose.rpc.status import RpcError

# Seconds; more than CRI's int64 takes is as good as for ever.
_LONGEST_GRACE: Final = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Becoming:
    """A CRI call. With more than one method it is unreadable, and nobody knows which of them it is."""

    act: Act
    methods: tuple[str, ...]
    identity: Identity | None = None  # of a create without an id yet; None: nobody knows
    message: bytes = b""
    unreadable: str = ""
    edit: Callable[[Any], Edited] | None = None  # from the message as it left the chain to Docker's body


async def become(call: HttpCall, runtime: DockerRuntime) -> Becoming | None:
    """What the call is to interceptors; None: nothing, it passes."""
    act: Act | None = call.head.route.endpoint.act
    if act is None:
        return None
    if act is Act.CREATE:
        return _creation(call)
    try:
        identity = await runtime.whose(call.head.route.ref)
    except RpcError as error:
        return _unreadable(act, f"dockerd does not say whose container it is: {error}")
    if identity is None or not _method(act, identity):
        return None
    return _update(call, identity) if act is Act.UPDATE else _of_object(act, identity, call.head.route.params)


def _creation(call: HttpCall) -> Becoming | None:
    try:
        creation = creating.read(call.body, call.head.route.params)
    except UnreadableBody as error:
        return _unreadable(Act.CREATE, str(error))
    if creation is None:
        return None
    made = _readable(Act.CREATE, creation.identity, creation.fill)
    return replace(made, edit=lambda after: creation.edited(_parsed(made), after))


def _update(call: HttpCall, identity: Identity) -> Becoming:
    try:
        update = updating.read(call.body)
    except UnreadableBody as error:
        return _unreadable(Act.UPDATE, str(error))
    made = _readable(Act.UPDATE, identity, lambda message: update.fill(message, identity.id))
    return replace(made, edit=lambda after: update.edited(_parsed(made), after))


def _of_object(act: Act, identity: Identity, params: Mapping[str, str]) -> Becoming:
    def fill(message: Any) -> None:
        if identity.sandbox:
            message.pod_sandbox_id = identity.id
            return
        message.container_id = identity.id
        if act is Act.STOP and (grace := params.get("t", "")).isdecimal():
            message.timeout = min(int(grace), _LONGEST_GRACE)

    return _readable(act, identity, fill)


def _readable(act: Act, identity: Identity, fill: Callable[[Any], None]) -> Becoming:
    method = _method(act, identity)
    parser = CriParser(METHODS[method].request)
    message = parser.parse(b"")
    fill(message)
    return Becoming(act=act, methods=(method,), identity=identity, message=parser.serialize(message))


def _method(act: Act, identity: Identity) -> str:
    """Empty if there is nothing like it for sandboxes."""
    *of_sandboxes, of_containers = METHODS_OF[act]
    return "".join(of_sandboxes) if identity.sandbox else of_containers


def _parsed(made: Becoming) -> Any:
    """The message as it was built, in a copy of its own."""
    return CriParser(METHODS[made.methods[0]].request).parse(made.message)


def _unreadable(act: Act, why: str) -> Becoming:
    return Becoming(act=act, methods=METHODS_OF[act], unreadable=why)
