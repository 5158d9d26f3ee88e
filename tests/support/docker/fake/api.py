"""The calls of the Docker API that the fake answers: a table of routes, and what each of them does."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tests.support.docker.fake import documents, filters
from tests.support.docker.fake.containers import Container
from tests.support.docker.fake.engine import Engine
from tests.support.docker.fake.errors import DockerError
from tests.support.docker.fake.streams import Streams
from tests.support.docker.fake.wire import JSON, Exchange, encode

Handler = Callable[["Api", Exchange, str], Awaitable[None]]
_VERSION: Final = re.compile(r"/v(\d+\.\d+)(?=/)")
_LIST_FILTERS: Final = frozenset({"label", "id", "name", "status", "ancestor", "network", "volume", "health"})
_NO_CACHE: Final = {"Cache-Control": "no-cache, no-store, must-revalidate", "Pragma": "no-cache"}
_NOTHING: Final = {"Content-Length": "0", "Content-Type": "text/plain; charset=utf-8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One call: its kind, for faults and the journal, and where it is."""

    kind: str
    method: str
    path: re.Pattern[str]
    handler: Handler


@dataclass(slots=True, kw_only=True)
class Loaded:
    """What POST /images/load received."""

    count: int = 0
    bytes: int = 0


class Api:
    """The calls, on one engine. `driver` is what /info says about cgroups."""

    def __init__(self, engine: Engine, streams: Streams, *, driver: str, root: str) -> None:
        self.engine = engine
        self.streams = streams
        self.driver = driver
        self.root = root
        self.loaded = Loaded()

    async def ping(self, exchange: Exchange, _: str) -> None:
        """GET and HEAD /_ping."""
        await exchange.answer(200, b"OK", {**_NO_CACHE, **(_NOTHING if exchange.method == "HEAD" else {})})

    async def version(self, exchange: Exchange, _: str) -> None:
        """GET /version."""
        await exchange.answer(200, documents.version())

    async def info(self, exchange: Exchange, _: str) -> None:
        """GET /info."""
        everything = list(self.engine.containers.values())
        await exchange.answer(200, documents.info(everything, len(self.engine.images), self.driver))

    async def create(self, exchange: Exchange, _: str) -> None:
        """POST /containers/create."""
        container = self.engine.create(exchange.query.get("name", ""), await exchange.body())
        await exchange.answer(201, {"Id": container.id, "Warnings": []})

    async def list(self, exchange: Exchange, _: str) -> None:
        """GET /containers/json, the newest first."""
        wanted = filters.parse(exchange.query.get("filters", ""), _LIST_FILTERS)
        everything = exchange.flag("all") or "status" in wanted
        rows = [
            documents.listed(container)
            for container in reversed(self.engine.containers.values())
            if (everything or container.running) and _fits(container, wanted)
        ]
        await exchange.answer(200, rows)

    async def inspect(self, exchange: Exchange, ref: str) -> None:
        """GET /containers/{id}/json."""
        await exchange.answer(200, documents.inspected(self.engine.find(ref), self.root))

    async def start(self, exchange: Exchange, ref: str) -> None:
        """POST /containers/{id}/start."""
        container = self.engine.find(ref)
        began = self.engine.start(container)
        await self.streams.run(container)
        await exchange.answer(204 if began else 304)

    async def stop(self, exchange: Exchange, ref: str) -> None:
        """POST /containers/{id}/stop."""
        await exchange.answer(204 if self.engine.stop(self.engine.find(ref)) else 304)

    async def kill(self, exchange: Exchange, ref: str) -> None:
        """POST /containers/{id}/kill."""
        self.engine.kill(self.engine.find(ref), ref, exchange.query.get("signal", ""))
        await exchange.answer(204)

    async def restart(self, exchange: Exchange, ref: str) -> None:
        """POST /containers/{id}/restart."""
        self.engine.restart(self.engine.find(ref))
        await exchange.answer(204)

    async def update(self, exchange: Exchange, ref: str) -> None:
        """POST /containers/{id}/update."""
        self.engine.update(self.engine.find(ref), await exchange.body())
        await exchange.answer(200, {"Warnings": None})

    async def rename(self, exchange: Exchange, ref: str) -> None:
        """POST /containers/{id}/rename."""
        self.engine.rename(self.engine.find(ref), exchange.query.get("name", ""))
        await exchange.answer(204)

    async def remove(self, exchange: Exchange, ref: str) -> None:
        """DELETE /containers/{id}."""
        self.engine.remove(self.engine.find(ref), force=exchange.flag("force"))
        await exchange.answer(204)

    async def wait(self, exchange: Exchange, ref: str) -> None:
        """POST /containers/{id}/wait."""
        await self.streams.wait(exchange, self.engine.find(ref))

    async def logs(self, exchange: Exchange, ref: str) -> None:
        """GET /containers/{id}/logs."""
        await self.streams.logs(exchange, self.engine.find(ref))

    async def attach(self, exchange: Exchange, ref: str) -> None:
        """POST /containers/{id}/attach."""
        await self.streams.attach(exchange, self.engine.find(ref))

    async def make_exec(self, exchange: Exchange, ref: str) -> None:
        """POST /containers/{id}/exec."""
        one = self.engine.make_exec(self.engine.find(ref), await exchange.body())
        await exchange.answer(201, {"Id": one.id})

    async def exec_start(self, exchange: Exchange, ref: str) -> None:
        """POST /exec/{id}/start."""
        await self.streams.exec_start(exchange, self.engine.find_exec(ref))

    async def exec_inspect(self, exchange: Exchange, ref: str) -> None:
        """GET /exec/{id}/json."""
        await exchange.answer(200, documents.exec_inspected(self.engine.find_exec(ref)))

    async def resize(self, exchange: Exchange, _: str) -> None:
        """POST /containers/{id}/resize and /exec/{id}/resize."""
        await exchange.answer(200, b"")

    async def events(self, exchange: Exchange, _: str) -> None:
        """GET /events."""
        await self.streams.events(exchange)

    async def images(self, exchange: Exchange, _: str) -> None:
        """GET /images/json."""
        await exchange.answer(200, [documents.image_listed(image) for image in self.engine.images])

    async def image_inspect(self, exchange: Exchange, ref: str) -> None:
        """GET /images/{name}/json."""
        await exchange.answer(200, documents.image_inspected(self.engine.find_image(ref)))

    async def load(self, exchange: Exchange, _: str) -> None:
        """POST /images/load: counts, keeps nothing."""
        self.loaded.count += 1
        async for piece in exchange.pieces():
            self.loaded.bytes += len(piece)
            self.engine.changes.notify()
        await exchange.begin(JSON)
        await exchange.chunk(encode({"stream": "Loaded image: localhost/loaded:latest\n"}))
        await exchange.end()


def _route(kind: str, method: str, path: str, handler: Handler) -> Route:
    return Route(kind=kind, method=method, path=re.compile(path.replace("{ref}", "([^/]+)")), handler=handler)


ROUTES: Final = (
    _route("ping", "GET", "/_ping", Api.ping),
    _route("ping", "HEAD", "/_ping", Api.ping),
    _route("version", "GET", "/version", Api.version),
    _route("info", "GET", "/info", Api.info),
    _route("events", "GET", "/events", Api.events),
    _route("list", "GET", "/containers/json", Api.list),
    _route("create", "POST", "/containers/create", Api.create),
    _route("inspect", "GET", "/containers/{ref}/json", Api.inspect),
    _route("start", "POST", "/containers/{ref}/start", Api.start),
    _route("stop", "POST", "/containers/{ref}/stop", Api.stop),
    _route("kill", "POST", "/containers/{ref}/kill", Api.kill),
    _route("restart", "POST", "/containers/{ref}/restart", Api.restart),
    _route("update", "POST", "/containers/{ref}/update", Api.update),
    _route("rename", "POST", "/containers/{ref}/rename", Api.rename),
    _route("wait", "POST", "/containers/{ref}/wait", Api.wait),
    _route("logs", "GET", "/containers/{ref}/logs", Api.logs),
    _route("attach", "POST", "/containers/{ref}/attach", Api.attach),
    _route("resize", "POST", "/containers/{ref}/resize", Api.resize),
    _route("remove", "DELETE", "/containers/{ref}", Api.remove),
    _route("exec", "POST", "/containers/{ref}/exec", Api.make_exec),
    _route("exec_start", "POST", "/exec/{ref}/start", Api.exec_start),
    _route("exec_inspect", "GET", "/exec/{ref}/json", Api.exec_inspect),
    _route("resize", "POST", "/exec/{ref}/resize", Api.resize),
    _route("images", "GET", "/images/json", Api.images),
    _route("image_inspect", "GET", "/images/(.+)/json", Api.image_inspect),
    _route("load", "POST", "/images/load", Api.load),
)
OTHER: Final = "other"
KINDS: Final = frozenset({route.kind for route in ROUTES} | {OTHER})


def find_route(method: str, path: str) -> tuple[Route | None, str]:
    """The call and what it names; a version that dockerd does not speak is refused."""
    if version := _VERSION.match(path):
        _check_version(version[1])
        path = path[version.end() :]
    for route in ROUTES:
        if route.method == method and (found := route.path.fullmatch(path)):
            return route, found[1] if found.groups() else ""
    return None, ""


def _check_version(text: str) -> None:
    asked, newest, oldest = (tuple(map(int, one.split("."))) for one in (text, documents.API, documents.MINIMUM))
    if asked > newest:
        raise DockerError(400, f"client version {text} is too new. Maximum supported API version is {documents.API}")
    if asked < oldest:
        raise DockerError(
            400,
            f"client version {text} is too old. Minimum supported API version is {documents.MINIMUM}, "
            "please upgrade your client to a newer version",
        )


def _fits(container: Container, wanted: filters.Filters) -> bool:
    return (
        filters.labels_match(wanted, container.labels)
        and filters.begins(wanted, "id", container.id)
        and filters.part_of(wanted, "name", f"/{container.name}")
        and filters.one_of(wanted, "status", container.status)
    )
