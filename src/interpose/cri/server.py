"""A runtime served: handlers for both API versions made from any `Caller`.

What the runtime does not know stays UNIMPLEMENTED: clients find out that way what they can use.
"""

from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import aclosing
from functools import partial
from typing import Any

from google.protobuf.message import Message

from interpose.cri.caller import Caller
from interpose.cri.messages import cri, parse_message
from interpose.cri.methods import METHODS, Method
from interpose.net.grpc.handlers import Handlers, ServerContext, ServerStreaming, Unary

VERSIONS = ("v1", "v1alpha2")


def handlers(caller: Caller, *, methods: Collection[str], versions: Iterable[str] = VERSIONS) -> Handlers:
    """Handlers for these methods of the table; ValueError for a name that is not in it."""
    unknown = sorted(set(methods) - set(METHODS))
    if unknown:
        raise ValueError(f"no such CRI methods: {', '.join(unknown)}")
    table: dict[bytes, Unary | ServerStreaming] = {}
    for version in versions:
        for name in methods:
            method = METHODS[name]
            path = f"/runtime.{version}.{method.service}/{name}".encode()
            if method.server_streaming:
                table[path] = ServerStreaming(partial(_serve_stream, caller, method))
            elif name == "Version":
                table[path] = Unary(partial(_serve_version, caller, method, version))
            else:
                table[path] = Unary(partial(_serve_unary, caller, method))
    return table


def _parse_request(method: Method, body: bytes) -> Message:
    return parse_message(method.request, body, "error unmarshalling request")  # the words of gRPC servers


async def _serve_unary(caller: Caller, method: Method, body: bytes, _context: ServerContext) -> bytes:
    answer: Message = await caller.call(method.name, _parse_request(method, body))
    return answer.SerializeToString()


async def _serve_version(caller: Caller, method: Method, version: str, body: bytes, _context: ServerContext) -> bytes:
    """The version of the API is the one that was asked, which only the path tells."""
    answer: cri.VersionResponse = await caller.call(method.name, _parse_request(method, body))
    answer.runtime_api_version = version
    return answer.SerializeToString()


async def _serve_stream(
    caller: Caller, method: Method, body: bytes, _context: ServerContext
) -> AsyncGenerator[bytes, None]:
    answers: AsyncGenerator[Any, None] = caller.stream(method.name, _parse_request(method, body))
    async with aclosing(answers):
        async for answer in answers:
            yield answer.SerializeToString()
