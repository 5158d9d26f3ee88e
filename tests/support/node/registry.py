"""A registry on loopback: manifests and blobs over HTTP or HTTPS, with the ways of letting people in that there are.

    async with FakeRegistry(tls=True, users={"me": "secret"}, door=Door.TOKEN) as registry:
        registry.put("team/app", "1", image)
        registry.faults.cut(digest, times=2)

It runs on the loop of the test, which may look into it and change it between two awaits.
"""

import asyncio
import base64
import secrets
import ssl
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

from tests.support.apiserver.connection import BrokenError, HttpConnection, Request
from tests.support.net.certificates import Authority, write_pair
from tests.support.net.stream_server import StreamServer
from tests.support.node.image_files import INDEX, MANIFEST, MadeImage, digest


class Door(Enum):
    """Whom it lets in."""

    OPEN = auto()
    BASIC = auto()
    TOKEN = auto()


@dataclass(kw_only=True)
class Faults:
    """What goes wrong, and how often."""

    cuts: Counter[str] = field(default_factory=Counter)  # by digest: half of an answer
    statuses: dict[str, list[int]] = field(default_factory=dict)  # by the last part of the path
    ranges: bool = True  # whether it knows them
    lies: dict[str, bytes] = field(default_factory=dict)  # other content for a digest or tag

    def cut(self, which: str, *, times: int = 1) -> None:
        """Break off in the middle of a blob."""
        self.cuts[which] += times


class FakeRegistry:
    """One registry with its blobs. `elsewhere`: blobs are not given but found at another one."""

    def __init__(
        self,
        *,
        tls: bool = False,
        door: Door = Door.OPEN,
        users: Mapping[str, str] | None = None,
        identity_tokens: Mapping[str, str] | None = None,
        elsewhere: "FakeRegistry | None" = None,
    ) -> None:
        self.door = door
        self.users = dict(users or {})
        self.identity_tokens = dict(identity_tokens or {})
        self.elsewhere = elsewhere
        self.faults = Faults()
        self.requests: list[Request] = []
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.otherwise: MadeImage | None = None  # what it has under every name that it does not know
        self.tokens: dict[str, str] = {}  # with their scope
        self.realm = ""  # where tokens are given, if it is not here
        self.authority = Authority() if tls else None
        self.port = 0
        self._streams = StreamServer(self._serve, name="registry")

    async def __aenter__(self) -> Self:
        context = None
        if self.authority is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            with tempfile.TemporaryDirectory() as folder:
                write_pair(Path(folder), self.authority.issue())
                context.load_cert_chain(Path(folder, "tls.crt"), Path(folder, "tls.key"))
        self.port = await self._streams.start(tls=context)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._streams.stop()

    @property
    def host(self) -> str:
        """What references call it."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """Where it is."""
        return f"{'https' if self.authority else 'http'}://{self.host}"

    def put(self, name: str, tag: str, image: MadeImage) -> str:
        """Give it an image; the reference."""
        self.blobs |= image.blobs
        self.put_manifest(name, tag, image.manifest, MANIFEST)
        return f"{self.host}/{name}:{tag}"

    def put_manifest(self, name: str, tag: str, data: bytes, kind: str = INDEX) -> None:
        """Give it a manifest or an index."""
        for key in (tag, digest(data)):
            self.manifests[(name, key)] = (kind, data)

    def paths(self) -> list[str]:
        """What it was asked for."""
        return [request.path for request in self.requests]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = HttpConnection(reader, writer)
        try:
            while (request := await connection.next_request()) is not None:
                self.requests.append(request)
                if not await self._answer(connection, request):
                    return
        except BrokenError:
            connection.abort()

    async def _answer(self, connection: HttpConnection, request: Request) -> bool:
        if request.path == "/token":
            return await self._give_token(connection, request)
        last = request.path.rpartition("/")[2]
        if self.faults.statuses.get(last):
            return await connection.answer(self.faults.statuses[last].pop(0), {"errors": [{"code": "FAULT"}]})
        parts = request.path.split("/")
        if len(parts) < 5 or parts[1] != "v2" or parts[-2] not in ("manifests", "blobs"):
            return await connection.answer(404, {"errors": [{"code": "UNSUPPORTED"}]})
        name = "/".join(parts[2:-2])
        if not self._let_in(request, name):
            return await connection.answer(401, {"errors": [{"code": "UNAUTHORIZED"}]}, self._challenge(name))
        if parts[-2] == "manifests":
            return await self._give_manifest(connection, name, last)
        return await self._give_blob(connection, request, last)

    def _let_in(self, request: Request, name: str) -> bool:
        shown = request.headers.get("authorization", "")
        if self.door is Door.BASIC:
            return self._knows(shown)
        if self.door is Door.TOKEN:
            return self.tokens.get(shown.removeprefix("Bearer ")) == f"repository:{name}:pull"
        return True

    def _knows(self, shown: str) -> bool:
        word = base64.b64decode(shown.removeprefix("Basic ") or "").decode()
        user, _, password = word.partition(":")
        return bool(user) and self.users.get(user) == password

    def _challenge(self, name: str) -> dict[str, str]:
        if self.door is Door.BASIC:
            return {"www-authenticate": 'Basic realm="registry"'}
        realm = self.realm or f"{self.url}/token"
        scope = f"repository:{name}:pull"
        return {"www-authenticate": f'Bearer realm="{realm}",service="fake",scope="{scope}"'}

    async def _give_token(self, connection: HttpConnection, request: Request) -> bool:
        form = {key: values[0] for key, values in parse_qs(request.body.decode()).items()}
        asked: Mapping[str, Any] = form or request.query
        shown = request.headers.get("authorization", "")
        known = form.get("refresh_token", "") in self.identity_tokens if form else self._knows(shown)
        if not known and (self.users or self.identity_tokens):
            return await connection.answer(401, {"details": f"who is {shown}?"})
        token = secrets.token_hex(8)
        self.tokens[token] = asked["scope"]
        return await connection.answer(200, {"token": token, "expires_in": 300})

    async def _give_manifest(self, connection: HttpConnection, name: str, key: str) -> bool:
        found = self.manifests.get((name, key))
        if found is None and self.otherwise is not None:
            self.blobs |= self.otherwise.blobs
            found = (MANIFEST, self.otherwise.manifest)
        if found is None:
            return await connection.answer(404, {"errors": [{"code": "MANIFEST_UNKNOWN"}]})
        kind, data = found
        headers = {"content-type": kind, "docker-content-digest": digest(data)}
        return await connection.answer(200, self.faults.lies.get(key, data), headers)

    async def _give_blob(self, connection: HttpConnection, request: Request, key: str) -> bool:
        if self.elsewhere is not None:
            place = f"{self.elsewhere.url}{request.path}?signature=hidden"
            return await connection.answer(307, b"", {"location": place})
        data = self.blobs.get(key)
        if data is None:
            return await connection.answer(404, {"errors": [{"code": "BLOB_UNKNOWN"}]})
        data = self.faults.lies.get(key, data)
        status, headers = 200, {"content-type": "application/octet-stream"}
        wanted = request.headers.get("range", "")
        if wanted and self.faults.ranges:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            headers["content-range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            status, data = 206, data[start:]
        cut = self.faults.cuts[key] > 0
        if cut:
            self.faults.cuts[key] -= 1
        return await connection.answer(status, data, headers, truncated=cut)
