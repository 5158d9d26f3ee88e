"""dockerd as a CRI runtime, for the calls of our own parts: CRI requests become calls of Docker's API.

Paths have no version, so dockerd answers with its newest; what is read here every version since 1.24 has. The
identity behind a full id is cached as long as it is sure: see `translate.identity_cache`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

from interpose.cri.errors import UnreadableMessageError
from interpose.cri.methods import METHODS
from interpose.cri.parser import CriParser
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.api import Body, Reply
from interpose.relay.docker.connection import HttpReply
from interpose.relay.docker.translate import create, inspect, orphaned_pods
from interpose.relay.docker.translate.errors import code_of_status, message_of
from interpose.relay.docker.translate.identity_cache import CacheMark, IdentityCache
from interpose.relay.docker.translate.inspect import NO_IMAGE, Image
from interpose.relay.docker.translate.json_edit import UnreadableBodyError
from interpose.relay.docker.translate.labels import DockerIdentity
from interpose.relay.docker.upstream import DockerUpstream

# Seconds for finding the pod of the container that a call is about. The call waits for it.
_LOOK: Final = 2.0
# The upstream tells a time that is up like every other trouble; here it has a code of its own, so we look first.
_SLACK: Final = 1.0
_MOST_IMAGES: Final = 1024
# dockerd answers a create with the same.
_NO_SUCH_IMAGE: Final = (Code.NOT_FOUND, Code.INVALID_ARGUMENT)
_VERSION: Final = "0.1.0"  # of the CRI's own numbering; all runtimes say so

_Answer = Callable[[Any, Any, float], Awaitable[None]]  # request, response to be filled, timeout


class DockerAnswer:
    """dockerd's answer behind a reply. `failure` is what the store updater looks at: None if the answer is whole."""

    __slots__ = ("failure", "http")

    def __init__(self, http: HttpReply) -> None:
        self.http = http
        self.failure: str | None = None
        if http.failure or http.head is None:
            self.failure = http.failure or "dockerd did not answer"

    def code(self, *, creating: bool = False) -> Code:
        """The gRPC code for the HTTP status."""
        if self.failure is not None or self.http.head is None:
            return Code.UNAVAILABLE
        return code_of_status(self.http.head.status, creating=creating)

    @property
    def message(self) -> str:
        """The reason of a failure, for people."""
        return self.failure if self.failure is not None else message_of(self.http.body)


class DockerRuntime:
    """Answers the few CRI methods that our own parts need."""

    def __init__(self, upstream: DockerUpstream) -> None:
        self._upstream = upstream
        self.known = IdentityCache(lambda: upstream.event_session)
        self._images: dict[str, Image] = {}
        self._answers: Mapping[str, _Answer] = {
            "Version": self._version,
            "ListPodSandbox": self._list_pods,
            "ListContainers": self._list_containers,
            "PodSandboxStatus": self._pod_status,
            "ContainerStatus": self._container_status,
            "UpdateContainerResources": self._update,
        }

    async def call(self, method: str, message: bytes, timeout: float) -> Reply:
        """The reply of a CRI method. Whatever goes wrong is in its code."""
        row, answer = METHODS[method], self._answers.get(method)
        if answer is None:
            return Reply(code=Code.UNIMPLEMENTED, message=f"Docker has nothing like {method}")
        parser = CriParser(row.response)
        try:
            request, response = CriParser(row.request).parse(message), parser.parse(b"")
            await answer(request, response, timeout)
        except UnreadableMessageError as error:
            return Reply(code=Code.INVALID_ARGUMENT, message=str(error))
        except RpcError as error:
            return Reply(code=error.code, message=error.message)
        except UnreadableBodyError as error:
            return Reply(code=Code.INTERNAL, message=f"dockerd's answer cannot be read: {error}")
        return Reply(code=Code.OK, body=Body(parser.serialize(response), parser))

    # -- identities of containers

    async def find_identity(self, ref: str) -> DockerIdentity | None:
        """The sandbox or container of Kubernetes that an id, a part of one or a name means.

        None: it is not of Kubernetes, or dockerd knows no such container. RpcError: dockerd could not tell.
        """
        known, mark = self.known.get(ref), self.known.mark()
        if known is not None:
            return known
        try:
            body = await self._ask("GET", _path(ref, "json"), timeout=_LOOK)
        except RpcError as error:
            if error.code is Code.NOT_FOUND:
                return None
            raise
        try:
            found = inspect.identity_of(body)
        except UnreadableBodyError as error:
            raise RpcError(Code.INTERNAL, f"dockerd's answer cannot be read: {error}") from error
        if found is not None:
            self.known.add(found, mark)
        return found

    async def labels_of_image(self, name: str) -> Mapping[str, str]:
        """The labels that containers of an image get if they have none of that name; empty if there is no such image.

        RpcError: dockerd could not tell. Names of images move, so this is never remembered.
        """
        try:
            body = await self._ask("GET", f"/images/{quote(name, safe='/:@')}/json", timeout=_LOOK)
            return inspect.read_image(body).labels
        except RpcError as error:
            if error.code in _NO_SUCH_IMAGE:
                return {}
            raise
        except UnreadableBodyError as error:
            raise RpcError(Code.INTERNAL, f"dockerd's answer cannot be read: {error}") from error

    def _know_all(self, ids: Iterable[str], mark: CacheMark, *, sandbox: bool) -> None:
        for container_id in ids:
            if self.known.get(container_id) is None:
                self.known.add(DockerIdentity(id=container_id, sandbox=sandbox), mark)

    # -- the methods

    async def _version(self, _request: Any, response: Any, timeout: float) -> None:
        document = read_object(await self._ask("GET", "/version", timeout=timeout))
        response.version, response.runtime_name = _VERSION, "docker"
        response.runtime_version = _text(document.get("Version"))
        response.runtime_api_version = _text(document.get("ApiVersion"))

    async def _list_pods(self, request: Any, response: Any, timeout: float) -> None:
        pods, containers = await self._everything(timeout)
        orphaned_pods.write_listed(pods, orphaned_pods.find_orphaned(pods.items, containers.containers))
        response.items.extend(pod for pod in pods.items if orphaned_pods.is_wanted(pod, request.filter))

    async def _everything(self, timeout: float) -> tuple[Any, Any]:
        """The lists of all sandboxes and of all containers, as of one moment."""
        mark = self.known.mark()
        of_pods, of_containers = METHODS["ListPodSandbox"], METHODS["ListContainers"]
        no_filter = CriParser(of_containers.request).parse(b"").filter
        body = await self._ask("GET", inspect.list_target(no_filter), timeout=timeout)
        pods, containers = CriParser(of_pods.response).parse(b""), CriParser(of_containers.response).parse(b"")
        inspect.listed_sandboxes(body, CriParser(of_pods.request).parse(b"").filter, pods)
        inspect.listed_containers(body, no_filter, containers)
        self._know_all((pod.id for pod in pods.items), mark, sandbox=True)
        return pods, containers

    async def _list_containers(self, request: Any, response: Any, timeout: float) -> None:
        mark = self.known.mark()
        body = await self._ask("GET", inspect.list_target(request.filter), timeout=timeout)
        inspect.listed_containers(body, request.filter, response)
        self._know_all((container.id for container in response.containers), mark, sandbox=False)

    async def _pod_status(self, request: Any, response: Any, timeout: float) -> None:
        ref = request.pod_sandbox_id
        try:
            body = await self._inspect(ref, timeout, sandbox=True)
        except RpcError as error:
            if error.code is not Code.NOT_FOUND or not await self._orphaned_status(ref, response, timeout):
                raise
        else:
            inspect.pod_status(body, response, await self._image(body, timeout))

    async def _orphaned_status(self, ref: str, response: Any, timeout: float) -> bool:
        """Fill in the status of a pod that has no sandbox any more; False: there is none."""
        pods, containers = await self._everything(timeout)
        container = orphaned_pods.find_orphaned(pods.items, containers.containers).get(ref)
        if container is not None:
            body = await self._ask("GET", _path(container.id, "json"), timeout=timeout)
            orphaned_pods.write_status(response, ref, container, read_object(body))
        return container is not None

    async def _container_status(self, request: Any, response: Any, timeout: float) -> None:
        body = await self._inspect(request.container_id, timeout, sandbox=False)
        inspect.container_status(body, response, await self._image(body, timeout))

    async def _image(self, body: bytes, timeout: float) -> Image:
        """Labels and variables of the image, which dockerd mixes into those of its containers: they must not count as
        the container's own. Ids of images are digests of their content, so what one has is cached."""
        wanted = inspect.image_of(body)
        if not wanted:
            return NO_IMAGE
        known = self._images.get(wanted)
        if known is None:
            try:
                answer = await self._ask("GET", f"/images/{quote(wanted, safe=':')}/json", timeout=timeout)
                known = inspect.read_image(answer)
            except RpcError as error:
                if error.code is not Code.NOT_FOUND:
                    raise
                return NO_IMAGE  # removed while its containers stay; it may come back
            if len(self._images) >= _MOST_IMAGES:
                del self._images[next(iter(self._images))]
            self._images[wanted] = known
        return known

    async def _update(self, request: Any, _response: Any, timeout: float) -> None:
        await self._ask(
            "POST", _path(request.container_id, "update"), create.update_body(request).body, timeout=timeout
        )

    async def _inspect(self, ref: str, timeout: float, *, sandbox: bool) -> bytes:
        """What dockerd says about a sandbox, or about a container; it does not tell them apart, CRI does."""
        mark = self.known.mark()
        body = await self._ask("GET", _path(ref, "json"), timeout=timeout)
        found = inspect.identity_of(body)
        if found is None or found.sandbox is not sandbox:
            kind = "sandbox" if sandbox else "container"
            raise RpcError(Code.NOT_FOUND, f"{ref} is no {kind} of Kubernetes")
        self.known.add(found, mark)
        return body

    async def _ask(self, method: str, target: str, body: bytes = b"", *, timeout: float) -> bytes:
        """The body of dockerd's answer. RpcError for everything that is not a success."""
        try:
            async with asyncio.timeout(timeout):
                http = await self._upstream.request(method, target, body, timeout=timeout + _SLACK)
        except TimeoutError:
            raise RpcError(Code.DEADLINE_EXCEEDED, f"dockerd did not answer within {timeout:g} s") from None
        answer = DockerAnswer(http)
        if code := answer.code():
            raise RpcError(code, answer.message)
        return http.body


def read_object(body: bytes) -> Mapping[str, Any]:
    """The JSON object of an answer; empty if there is none. dockerd spells its keys always the same."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _path(ref: str, what: str) -> str:
    # Paths of requests are read as Latin-1, which loses nothing; so what came from one goes back as it came.
    return f"/containers/{quote(ref, safe='', encoding='latin-1', errors='replace')}/{what}"


def _text(value: object) -> str:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""
