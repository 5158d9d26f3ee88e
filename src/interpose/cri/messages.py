"""The door to the generated CRI classes for those who speak CRI all the time: pod manager and runtime.

A relay, which looks into few calls, uses `cri.parser`, which imports them late.
"""

from google.protobuf.message import DecodeError, Message

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.status import Code, RpcError

__all__ = ["cri", "parse_message"]


def parse_message(name: str, body: bytes, failure: str) -> Message:
    """The CRI message of this class; RpcError INTERNAL that begins with `failure` if the bytes are none."""
    kind: type[Message] = getattr(cri, name)
    try:
        return kind.FromString(body)
    except DecodeError as error:
        raise RpcError(Code.INTERNAL, f"{failure}: {error}") from None
