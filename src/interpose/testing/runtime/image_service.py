"""The ImageService of a fake node over its image store."""

import json
from collections.abc import AsyncGenerator, Callable

from google.protobuf.message import Message

from interpose._pb import cri_pb2 as cri
from interpose.testing.runtime.images import ImageStore
from interpose.testing.runtime.methods import Methods, StreamMethod, UnaryMethod, in_batches

_IMAGE_ROOT = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"


class FakeImageService:
    """Methods of the image service."""

    def __init__(self, images: ImageStore, clock: Callable[[], int], batch: int) -> None:
        self._images = images
        self._clock = clock
        self._batch = batch

    def methods(self) -> Methods:
        """The method table of the image service."""
        return {
            "ListImages": UnaryMethod(cri.ListImagesRequest, self.list_images),
            "StreamImages": StreamMethod(cri.StreamImagesRequest, self.stream_images),
            "ImageStatus": UnaryMethod(cri.ImageStatusRequest, self.image_status),
            "PullImage": UnaryMethod(cri.PullImageRequest, self.pull_image),
            "RemoveImage": UnaryMethod(cri.RemoveImageRequest, self.remove_image),
            "ImageFsInfo": UnaryMethod(cri.ImageFsInfoRequest, self.image_fs_info),
        }

    def list_images(self, request: cri.ListImagesRequest) -> cri.ListImagesResponse:
        return cri.ListImagesResponse(images=self._images.list(request.filter.image.image))

    def stream_images(self, request: cri.StreamImagesRequest) -> AsyncGenerator[Message, None]:
        items = self._images.list(request.filter.image.image)
        return in_batches(items, self._batch, lambda part: cri.StreamImagesResponse(images=part))

    def image_status(self, request: cri.ImageStatusRequest) -> cri.ImageStatusResponse:
        image = self._images.find(request.image.image)
        # Absent is an answer, not an error: the kubelet asks this to decide whether to pull.
        if image is None:
            return cri.ImageStatusResponse()
        info = {"info": json.dumps({"chainID": image.id})} if request.verbose else {}
        return cri.ImageStatusResponse(image=image, info=info)

    def pull_image(self, request: cri.PullImageRequest) -> cri.PullImageResponse:
        return cri.PullImageResponse(image_ref=self._images.pull(request.image.image, request.auth).id)

    def remove_image(self, request: cri.RemoveImageRequest) -> cri.RemoveImageResponse:
        self._images.remove(request.image.image)
        return cri.RemoveImageResponse()

    def image_fs_info(self, _request: cri.ImageFsInfoRequest) -> cri.ImageFsInfoResponse:
        usage = cri.FilesystemUsage(
            timestamp=self._clock(),
            fs_id=cri.FilesystemIdentifier(mountpoint=_IMAGE_ROOT),
            used_bytes=cri.UInt64Value(value=sum(image.size for image in self._images.images.values())),
            inodes_used=cri.UInt64Value(value=100 * len(self._images.images)),
        )
        return cri.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])
