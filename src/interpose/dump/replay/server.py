"""A runtime that answers from a recording: handlers for a server, in both API versions."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

from interpose.cri.methods import API_VERSIONS, METHODS
from interpose.dump.replay.answers import Answer, Answers, MissingAnswer, RecordedReply
from interpose.dump.replay.runner import message_of
from interpose.net.grpc.handlers import Handlers, ServerContext, ServerStreaming, Unary
from interpose.net.grpc.status import Code, RpcError

_READY: Final = ("RuntimeReady", "NetworkReady")
_NAME: Final = "interpose-replay"
_CANCELLED: Final = (Code.OK, Code.CANCELLED)


class ReplayServer:
    """Answers calls. `miss` is told, once for each text, what is not in the recording."""

    def __init__(self, answers: Answers, *, speed: float = 0.0, on_miss: Callable[[str], None]) -> None:
        """`speed`: 1 takes as long as it took, 10 a tenth of that, 0 no time."""
        self._answers = answers
        self._speed = speed
        self._on_miss = on_miss
        self._reported: set[str] = set()
        self.answered_calls = 0
        self.missed_calls = 0

    def handlers(self) -> Handlers:
        """Every method of the CRI, in both versions."""
        table: dict[bytes, Unary | ServerStreaming] = {}
        for name, method in METHODS.items():
            handler = (
                ServerStreaming(partial(self._stream, name))
                if method.server_streaming
                else Unary(partial(self._unary, name))
            )
            table |= dict.fromkeys(
                (f"/{version}.{method.service}/{name}".encode() for version in API_VERSIONS), handler
            )
        return table

    async def _unary(self, name: str, request: bytes, _context: ServerContext) -> bytes:
        answer = self._find(name, request)
        await self._pause(answer.elapsed)
        _raise_status(answer)
        return answer.replies[-1].body

    async def _stream(self, name: str, request: bytes, _context: ServerContext) -> AsyncIterator[bytes]:
        answer = self._find(name, request)
        passed = 0
        for reply in answer.replies:
            await self._pause(reply.at - passed)
            passed = reply.at
            yield reply.body
        if answer.open or (name == "GetContainerEvents" and answer.code in _CANCELLED):
            # Whoever listened went away; the next one stays as long as he likes.
            await asyncio.get_running_loop().create_future()
        await self._pause(answer.elapsed - passed)
        _raise_status(answer)

    def _find(self, name: str, request: bytes) -> Answer:
        found = self._answers.find(name, request)
        if not isinstance(found, MissingAnswer):
            self.answered_calls += 1
            return found
        self.missed_calls += 1
        instead = _STAND_INS.get(name)
        if found.text not in self._reported:
            self._reported.add(found.text)
            self._on_miss(found.text + ("; a minimal answer is given" if instead is not None else ""))
        if instead is not None:
            reply = RecordedReply(at=0, body=instead().SerializeToString())
            return Answer(number=0, replies=(reply,), elapsed=0, code=Code.OK, message="")
        raise RpcError(_code(found), found.text)

    async def _pause(self, nanoseconds: int) -> None:
        if self._speed and nanoseconds > 0:
            await asyncio.sleep(nanoseconds / 1e9 / self._speed)


def _code(missing: MissingAnswer) -> Code:
    if missing.unknown:
        return Code.UNIMPLEMENTED
    return Code.RESOURCE_EXHAUSTED if missing.used_up else Code.NOT_FOUND


def _raise_status(answer: Answer) -> None:
    if answer.code:
        code = Code(answer.code) if answer.code in Code.__members__.values() else Code.UNKNOWN
        raise RpcError(code, answer.message)


def _version() -> Any:
    message = message_of("VersionResponse", b"")
    message.version, message.runtime_name = "0.1.0", _NAME
    message.runtime_version, message.runtime_api_version = "0", "v1"
    return message


def _status() -> Any:
    message = message_of("StatusResponse", b"")
    for condition in _READY:
        message.status.conditions.add(type=condition, status=True)
    return message


def _no_image() -> Any:
    return message_of("ImageStatusResponse", b"")


# What callers need before anything else, and what says "there is none" without being an error.
_STAND_INS: Final[dict[str, Callable[[], Any]]] = {"Version": _version, "Status": _status, "ImageStatus": _no_image}
