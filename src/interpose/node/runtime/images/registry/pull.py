"""A pull: from a name to an image in the store."""

import errno
from typing import IO

from interpose.node.runtime.images.blob import BlobFile
from interpose.node.runtime.images.importer import ImageImporter, LayerSource
from interpose.node.runtime.images.index import IndexEntry
from interpose.node.runtime.images.manifests import (
    MAX_BYTES,
    Descriptor,
    ImageManifest,
    Platform,
    choose_manifest,
    digest_of,
    read_manifest,
)
from interpose.node.runtime.images.registry.client import RegistryClient
from interpose.node.runtime.images.registry.reference import ImageReference
from interpose.node.runtime.images.types import Auth, Progress, PullError


async def pull_image(
    importer: ImageImporter,
    registry: RegistryClient,
    name: ImageReference,
    auth: Auth | None,
    platform: Platform,
    progress: Progress,
) -> IndexEntry:
    """Pull an image from its registry; PullError gives the reason of a failure."""
    try:
        return await _Pull(importer, registry, name, auth, progress).run(platform)
    except ValueError as error:
        raise PullError(f'failed to pull image "{name}": {error}') from None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise PullError(f'failed to pull image "{name}": {_describe_error(error)}') from None


def _describe_error(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)


class _Pull:
    def __init__(
        self,
        importer: ImageImporter,
        registry: RegistryClient,
        name: ImageReference,
        auth: Auth | None,
        progress: Progress,
    ) -> None:
        self._importer = importer
        self._registry = registry
        self._name = name
        self._auth = auth
        self._progress = progress

    async def run(self, platform: Platform) -> IndexEntry:
        top = await self._registry.manifest(self._name, self._name.wanted, self._auth)
        digest = digest_of(top)
        size = len(top)
        found = read_manifest(top, f"manifest {digest}")
        if not isinstance(found, ImageManifest):
            chosen = choose_manifest(found, platform, f"index {digest}")
            data = await self._registry.manifest(self._name, chosen.digest, self._auth)
            size = len(data)
            inner = read_manifest(data, f"manifest {chosen.digest}")
            if not isinstance(inner, ImageManifest):
                raise ValueError(f"index {digest}: manifest {chosen.digest} is an index again")
            found = inner
        config = await self._config(found.config)
        return await self._importer.import_image(
            config,
            [self._layer(layer) for layer in found.layers],
            self._progress,
            tags=() if self._name.digest else (str(self._name),),
            digests=(f"{self._name.repository}@{digest}",),
            size=size + len(config) + sum(layer.size for layer in found.layers),
        )

    async def _config(self, blob: Descriptor) -> bytes:
        if blob.size > MAX_BYTES:
            raise ValueError(f"config {blob.digest}: it is larger than {MAX_BYTES} bytes")
        sink = _MemorySink(blob)
        await self._registry.blob(self._name, blob, self._auth, sink)
        return bytes(sink.data)

    def _layer(self, blob: Descriptor) -> LayerSource:
        async def open_layer() -> IO[bytes]:
            path = self._importer.disk.new_path("blob")
            file = BlobFile(path, blob, self._importer.quick_threads, self._progress)
            try:
                await self._registry.blob(self._name, blob, self._auth, file)
                return path.open("rb")
            finally:
                file.close()
                path.unlink()  # the open file can still be read

        return LayerSource(name=blob.digest, size=blob.size, source=self._name.domain, open=open_layer)


class _MemorySink:
    """A small blob, received into memory."""

    def __init__(self, blob: Descriptor) -> None:
        self.data = bytearray()
        self._blob = blob

    @property
    def size(self) -> int:
        return len(self.data)

    async def write(self, data: bytes) -> None:
        self.data += data

    async def reset(self) -> None:
        self.data.clear()

    async def check(self) -> None:
        if digest_of(bytes(self.data)) != self._blob.digest:
            raise ValueError(f"the content of config {self._blob.digest} has another digest")
