"""The CRI ImageService over the image store."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Protocol

from google.protobuf.message import Message

from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError
from interpose.node.runtime.images.types import Auth, PullError, StoredImage
from interpose.node.runtime.service.errors import invalid
from interpose.node.runtime.service.methods import (
    ChangeMethod,
    Methods,
    QueryMethod,
    ServerStreamMethod,
    stream_in_batches,
)


class ImageBackend(Protocol):
    """The calls of the image store that the service uses."""

    async def list(self) -> Sequence[StoredImage]: ...

    async def get(self, reference: str) -> StoredImage | None: ...

    async def pull(self, reference: str, auth: Auth | None = None) -> StoredImage: ...

    async def remove(self, reference: str) -> bool: ...


_MAX_UID_DIGITS = 18  # decimal digits that fit into an int64; a uid has ten at most
Usage = Callable[[], Awaitable[tuple[str, int, int]]]  # folder, bytes, inodes


class CriImageService:
    """The CRI methods of the image service."""

    def __init__(
        self, images: ImageBackend, clock: Callable[[], int], image_usage: Usage, container_usage: Usage
    ) -> None:
        self._images = images
        self._clock = clock
        self._image_usage = image_usage
        self._container_usage = container_usage

    def methods(self) -> Methods:
        """The method table of the image service."""
        return {
            "ListImages": QueryMethod(self._list),
            "StreamImages": ServerStreamMethod(self._stream),
            "ImageStatus": QueryMethod(self._status),
            "PullImage": QueryMethod(self._pull),  # cancelled with its caller: an incomplete pull changes nothing
            "RemoveImage": ChangeMethod(self._remove),
            "ImageFsInfo": QueryMethod(self._fs_info),
        }

    async def _list(self, request: cri.ListImagesRequest) -> cri.ListImagesResponse:
        return cri.ListImagesResponse(images=await self._matching(request.filter.image.image))

    async def _stream(self, request: cri.StreamImagesRequest) -> AsyncGenerator[Message, None]:
        items = await self._matching(request.filter.image.image)
        async for answer in stream_in_batches(items, lambda part: cri.StreamImagesResponse(images=part)):
            yield answer

    async def _matching(self, reference: str) -> list[cri.Image]:
        if not reference:
            return [image_message(image) for image in await self._images.list()]
        found = await self._find(reference)
        return [] if found is None else [image_message(found, reference)]

    async def _status(self, request: cri.ImageStatusRequest) -> cri.ImageStatusResponse:
        """An image that is not here is an empty answer, not an error: clients ask whether to pull."""
        _check_not_empty(request.image.image)
        found = await self._find(request.image.image)
        if found is None:
            return cri.ImageStatusResponse()
        answer = cri.ImageStatusResponse(image=image_message(found, request.image.image))
        if request.verbose:
            answer.info["info"] = json.dumps(_verbose_info(found))
        return answer

    async def _pull(self, request: cri.PullImageRequest) -> cri.PullImageResponse:
        _check_not_empty(request.image.image)
        try:
            pulled = await self._images.pull(request.image.image, _auth(request))
        except PullError as error:
            raise RpcError(Code.NOT_FOUND if error.not_found else Code.UNKNOWN, str(error)) from None
        except ValueError as error:
            raise invalid("image.image", str(error)) from None
        except OSError as error:
            raise RpcError(Code.UNKNOWN, f"PullImage: {error}") from None
        return cri.PullImageResponse(image_ref=pulled.id)

    async def _remove(self, request: cri.RemoveImageRequest) -> cri.RemoveImageResponse:
        """Remove an image by any of its names, with all names; a missing image is fine."""
        _check_not_empty(request.image.image)
        try:
            await self._images.remove(request.image.image)
        except ValueError as error:
            raise invalid("image.image", str(error)) from None
        return cri.RemoveImageResponse()

    async def _fs_info(self, _request: cri.ImageFsInfoRequest) -> cri.ImageFsInfoResponse:
        now = self._clock()
        images = _filesystem(now, *await self._image_usage())
        containers = _filesystem(now, *await self._container_usage())
        return cri.ImageFsInfoResponse(image_filesystems=[images], container_filesystems=[containers])

    async def _find(self, reference: str) -> StoredImage | None:
        try:
            return await self._images.get(reference)
        except ValueError as error:
            raise invalid("image.image", str(error)) from None


def image_message(image: StoredImage, requested: str = "") -> cri.Image:
    """The CRI message of an image; `requested` is the name in the request. The user is a uid or a name, never both."""
    message = cri.Image(
        id=image.id,
        repo_tags=image.repo_tags,
        repo_digests=image.repo_digests,
        size=image.size,
        spec=cri.ImageSpec(image=image.matching_tag(requested) or (image.names[0] if image.names else image.id)),
        pinned=image.pinned,
    )
    user = image.config.user.partition(":")[0]
    if user.isascii() and user.isdigit() and len(user) <= _MAX_UID_DIGITS:
        message.uid.value = int(user)
    elif user:
        message.username = user
    return message


def _verbose_info(image: StoredImage) -> dict[str, object]:
    config = image.config
    spec = {
        "architecture": config.architecture,
        "os": config.os,
        "config": {
            "User": config.user,
            "Entrypoint": list(config.entrypoint),
            "Cmd": list(config.cmd),
            "WorkingDir": config.working_dir,
            "Labels": dict(config.labels),
            "StopSignal": config.stop_signal,
        },
    }
    return {"chainID": image.chain[-1] if image.chain else "", "imageSpec": spec}


def _check_not_empty(reference: str) -> None:
    if not reference:
        raise invalid("image.image", "must not be empty")


def _auth(request: cri.PullImageRequest) -> Auth | None:
    if not request.HasField("auth"):
        return None
    auth = request.auth
    return Auth(
        username=auth.username,
        password=auth.password,
        auth=auth.auth,
        server_address=auth.server_address,
        identity_token=auth.identity_token,
        registry_token=auth.registry_token,
    )


def _filesystem(now: int, mountpoint: str, used: int, inodes: int) -> cri.FilesystemUsage:
    return cri.FilesystemUsage(
        timestamp=now,
        fs_id=cri.FilesystemIdentifier(mountpoint=mountpoint),
        used_bytes=cri.UInt64Value(value=used),
        inodes_used=cri.UInt64Value(value=inodes),
    )
