"""Which version of the API a runtime speaks, and calls to a runtime of which that is not known beforehand.

v1 comes first, and v1alpha2 after UNIMPLEMENTED; the version that answered is remembered until the owner of the
connection says that the runtime may be another one. A call that fails in any other way is not made again.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from interpose.cri.methods import API_VERSIONS, METHODS
from interpose.net.grpc.client import Client, Metadata
from interpose.net.grpc.status import Code, RpcError

TIMEOUT: Final = 10.0

Send = Callable[[str, bytes, float], Awaitable[bytes]]  # path, message, timeout -> reply message or RpcError


class VersionFallback:
    """Sends each call in the API version that worked last."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._index = 0

    @property
    def version(self) -> str:
        """`v1` or `v1alpha2`: the version that answered last; `v1` before the first answer."""
        return API_VERSIONS[self._index].removeprefix("runtime.")

    def choose_path(self, paths: Sequence[str]) -> str:
        """The path of a method in the version that answered last. `paths` as for `call`."""
        return paths[self._index]

    async def call(self, paths: Sequence[str], message: bytes, timeout: float) -> bytes:
        """The reply message. `paths` are those of one method, the newer version first."""
        first = self._index
        try:
            return await self._send(paths[first], message, timeout)
        except RpcError as error:
            if error.code is not Code.UNIMPLEMENTED:
                raise
        other = 1 - first
        answer = await self._send(paths[other], message, timeout)
        self._index = other
        return answer

    def forget(self) -> None:
        """Begin with v1 again: the runtime may be another one now."""
        self._index = 0


class RuntimeCalls:
    """Calls of the runtime service over connections of our own."""

    def __init__(self, client: Client, timeout: float = TIMEOUT, *, metadata: Metadata = ()) -> None:
        self._client = client
        self._metadata = metadata
        self._timeout = timeout
        self._versions = VersionFallback(self._send)

    async def __call__(self, method: str, message: bytes, timeout: float | None = None) -> bytes:
        """The reply message. Raises RpcError for every other outcome."""
        return await self._versions.call(METHODS[method].paths, message, self._timeout if timeout is None else timeout)

    def forget_version(self) -> None:
        """Begin with v1 again: the runtime may be another one now."""
        self._versions.forget()

    async def _send(self, path: str, message: bytes, timeout: float) -> bytes:
        return await self._client.unary(path.encode(), message, metadata=self._metadata, timeout=timeout)
