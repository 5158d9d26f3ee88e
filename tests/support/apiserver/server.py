"""The test API server: sockets, connections and the way of a request.

    async with ApiServer(tokens={"secret": "agent"}) as server:
        server.put(CONFIG_MAPS, {"metadata": {"name": "x", "namespace": "kube-system"}, "data": {"a": "b"}})
        server.kubeconfig(folder / "config")
        server.faults.cut_watches(mid_line=True)

It runs on the loop of the test, so that a test may look into it and change it between two awaits. `background` has
the same for tests without a loop.
"""

import asyncio
import datetime as dt
import logging
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from interpose.kube.client.api import NODES, Object, Resource
from interpose.log import kv
from interpose.tasks import TaskBag
from interpose.testing.changes import Changes
from tests.support.apiserver.access import Access
from tests.support.apiserver.admission import Admitter
from tests.support.apiserver.connection import BrokenError, HttpConnection, Request
from tests.support.apiserver.discovery import discover
from tests.support.apiserver.entry import write_kubeconfig, write_service_account
from tests.support.apiserver.faults import Faults
from tests.support.apiserver.operations import Operations, parse_body
from tests.support.apiserver.paths import Logged, Target, asked_name, find_target, number
from tests.support.apiserver.problems import RefusedError
from tests.support.apiserver.resources import KINDS, NAMESPACES
from tests.support.apiserver.store import Store
from tests.support.apiserver.watches import End, Watch
from tests.support.apiserver.webhook_caller import WebhookCaller
from tests.support.net.certificates import Authority, write_pair
from tests.support.net.stream_server import StreamServer

_log = logging.getLogger(__name__)
_AT_FIRST = ("default", "kube-system", "kube-public", "kube-node-lease")


class ApiServer:
    """One server with its objects. `tokens` maps tokens to users; without any, nobody has to show one."""

    def __init__(
        self,
        *,
        tokens: Mapping[str, str] | None = None,
        tls: bool = False,
        nodes: Sequence[str] = (),
        host: str = "127.0.0.1",
        port: int = 0,
        remember: int = 1000,
    ) -> None:
        """With `tls` it speaks HTTPS, certificates of clients included. `remember` changes are kept for watches."""
        self.host = host
        self.port = port
        self.store = Store(now=_now, new_uid=_new_uid, remember=remember)
        self.access = Access(tokens)
        self.webhooks = WebhookCaller()
        self.faults = Faults(self)
        self.requests: list[Logged] = []
        self.changes = Changes()  # notified of requests, answers and changes of objects
        self.hidden: set[Resource] = set()  # kinds whose definition is not installed: no Status, as in reality
        self.authority = Authority() if tls else None
        self.watches: set[Watch] = set()
        self._operations = Operations(self.store, Admitter(self.store, self.webhooks, _new_uid).admit)
        self._tasks = TaskBag()
        self._streams = StreamServer(self._converse, name="apiserver")
        self._context: ssl.SSLContext | None = None
        self.store.listeners.append(lambda _: self.changes.notify())
        for name in _AT_FIRST:
            self.store.create(NAMESPACES, {"metadata": {"name": name}})
        for name in nodes:
            self.put(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})

    # -- for tests

    @property
    def url(self) -> str:
        """Where it is, once it listens."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.authority else 'http'}://{host}:{self.port}"

    def put(self, resource: Resource, body: Object) -> Object:
        """Make an object what a test says, status and all."""
        return self.store.put(resource, body)

    def get(self, resource: Resource, name: str, *, namespace: str = "") -> Object:
        """One object; KeyError if there is none."""
        try:
            return self.store.get(resource, name, namespace=namespace)
        except RefusedError as refusal:
            raise KeyError(refusal.message) from None

    def list(self, resource: Resource, *, namespace: str = "") -> list[Object]:
        """All objects of a kind, or those of one namespace."""
        return self.store.list(resource, namespace=namespace)

    def remove(self, resource: Resource, name: str, *, namespace: str = "") -> None:
        """Delete an object."""
        self.store.remove(resource, name, namespace=namespace)

    def kubeconfig(self, path: Path, *, token: str | None = None, client: str = "", namespace: str = "") -> Path:
        """Write one for a token (the first, if none is said), or with a certificate for the user `client`."""
        chosen = next(iter(self.access.tokens), "") if token is None else token
        pair = self.authority.issue(common_name=client, client=True) if client and self.authority else None
        return write_kubeconfig(path, self.url, self.ca, token="" if pair else chosen, pair=pair, namespace=namespace)

    def service_account(self, folder: Path, *, namespace: str = "kube-system") -> dict[str, str]:
        """Write what a pod finds of its account; returns the variables that it has. Needs TLS, as a real one."""
        token = next(iter(self.access.tokens), "")
        return write_service_account(folder, (self.host, self.port), self.ca, token=token, namespace=namespace)

    @property
    def ca(self) -> str:
        """The certificate to trust, PEM; nothing without TLS."""
        return self.authority.pem if self.authority else ""

    # -- life

    async def __aenter__(self) -> Self:
        if self.authority is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.verify_mode = ssl.CERT_OPTIONAL
            self.replace_certificate(new_ca=False)
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.faults.clear()
        await self.stop()

    async def start(self) -> None:
        """Listen, the second time where we listened before."""
        self.port = await self._streams.start(self.host, self.port, tls=self._context)

    async def stop(self) -> None:
        """Listen no more and break all connections."""
        await self._streams.stop()
        await self._tasks.cancel()

    # -- what faults need

    def break_connections(self) -> None:
        """All of them, now."""
        self._streams.abort()

    def forget_history(self) -> None:
        """What happened so far."""
        self.store.forget()

    def replace_token(self, old: str, new: str) -> None:
        """The user stays who they are."""
        self.access.tokens[new] = self.access.tokens.pop(old)

    def replace_certificate(self, *, new_ca: bool) -> None:
        """For connections from now on."""
        if self._context is None:
            raise ValueError("this server has no TLS")
        if self.authority is None or new_ca:
            self.authority = Authority()
        with tempfile.TemporaryDirectory(prefix="ip-") as folder:
            write_pair(Path(folder), self.authority.issue(self.host, "localhost"))
            self._context.load_cert_chain(f"{folder}/tls.crt", f"{folder}/tls.key")
        self._context.load_verify_locations(cadata=self.authority.pem)

    # -- the way of a request

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = HttpConnection(reader, writer)
        try:
            while (request := await connection.next_request()) is not None:
                if not await self._serve(connection, request):
                    break
        except BrokenError as error:
            _log.debug("Connection ended", extra=kv(err=str(error)))

    async def _serve(self, connection: HttpConnection, request: Request) -> bool:
        logged = _logged(request)
        self.requests.append(logged)
        self.changes.notify()
        try:
            if self.faults.drops(logged):
                connection.abort()
                raise BrokenError("a test wants it")
            await self.faults.before(logged)
            logged.user = self.access.user(request.headers.get("authorization", ""), connection.certificate)
            return await self._answer(connection, request, logged)
        except RefusedError as refusal:
            headers = {"retry-after": str(refusal.retry_after)} if refusal.retry_after is not None else {}
            return await self._say(connection, logged, refusal.code, refusal.body(), headers)

    async def _answer(self, connection: HttpConnection, request: Request, logged: Logged) -> bool:
        kinds = [kind for kind in KINDS if kind.resource not in self.hidden]
        if request.method == "GET" and (page := discover(request.path, request.headers.get("accept", ""), kinds)):
            return await self._say(connection, logged, 200, page.body, {"content-type": page.content_type})
        logged.body = parse_body(logged.content_type, request.body)
        target = find_target(request.method, request.path, request.query)
        if target.kind.resource in self.hidden:
            return await self._say(connection, logged, 404, b"404 page not found\n", {"content-type": "text/plain"})
        self.access.check(logged.user, target, asked_name(target, request.query))
        if target.verb == "watch":
            return await self._watch(connection, logged, target)
        code, body = await self._operations.answer(
            target, request.query, content_type=logged.content_type, body=logged.body, user=logged.user
        )
        return await self._say(connection, logged, code, body)

    async def _say(
        self, connection: HttpConnection, logged: Logged, code: int, body: Any, headers: Mapping[str, str] | None = None
    ) -> bool:
        truncated = self.faults.truncates(logged)
        more = await connection.answer(code, body, headers, truncated=truncated)
        logged.code = code
        self.changes.notify()
        return more

    async def _watch(self, connection: HttpConnection, logged: Logged, target: Target) -> bool:
        watch = Watch(self.store, target, logged.query)
        self.watches.add(watch)
        gone = self._tasks.spawn(_ended(connection, watch), name="apiserver-watcher")
        lasting = number(logged.query, "timeoutSeconds")
        timer = asyncio.get_running_loop().call_later(lasting, watch.end, End.CLEAN) if lasting else None
        try:
            await connection.begin_lines()
            logged.code = 200
            self.changes.notify()
            return await _send_lines(connection, watch)
        finally:
            self.watches.discard(watch)
            watch.close()
            gone.cancel()
            if timer is not None:
                timer.cancel()
            self.changes.notify()


async def _ended(connection: HttpConnection, watch: Watch) -> None:
    await connection.gone()
    watch.end(End.CUT)


async def _send_lines(connection: HttpConnection, watch: Watch) -> bool:
    while True:
        line = await watch.lines.get()
        if isinstance(line, bytes):
            await connection.line(line)
        elif line is End.CLEAN:
            # The one who waits for the client to leave may have read the start of its next request: begin anew.
            await connection.end_lines()
            return False
        elif line is End.MID_LINE:
            await connection.line(b'{"type": "MODIFIED", "object": {"metadata": {"na')
            raise BrokenError("a test wants it")
        else:
            connection.abort()
            raise BrokenError("the watch was cut")


def _logged(request: Request) -> Logged:
    return Logged(
        method=request.method,
        path=request.path,
        query=request.query,
        agent=request.headers.get("user-agent", ""),
        # Old clients say nothing of the type: it is JSON then.
        content_type=request.headers.get("content-type", "").partition(";")[0].strip() or "application/json",
        headers=request.headers,
    )


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _new_uid() -> str:
    return str(uuid4())
