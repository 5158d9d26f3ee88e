"""Import of an image into a store: its layers one after the other, then the image itself, in one step.

Layers are fetched concurrently and unpacked from the lowest on. Two imports of the same layer at the same time do the
work once. Layers of an image are not removed from the store while it is imported.

A slow source delays only the imports from it: there is a limit for each image, and one for each source, but none for
all together.
"""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import IO, Final

from interpose.node.runtime.images.archive import ArchiveFiles, FoundImage, LayerFile, check_layer
from interpose.node.runtime.images.concurrency import KeyedSemaphore, Threads
from interpose.node.runtime.images.disk import SPLIT, ImageDisk
from interpose.node.runtime.images.gc import ImageCollector
from interpose.node.runtime.images.index import IndexEntry
from interpose.node.runtime.images.layers.unpack import unpack
from interpose.node.runtime.images.manifests import chain_ids, digest_of, read_config, short
from interpose.node.runtime.images.saving.tar_split import TarSplitWriter
from interpose.node.runtime.images.staging import discard
from interpose.node.runtime.images.types import ImageConfig, Progress, PullPhase, PullProgress, UnpackLimits
from interpose.tasks import TaskBag

_FETCHES_PER_IMAGE: Final = 3  # layers fetched at a time
_FETCHES_PER_SOURCE: Final = 12
_UNPACKS: Final = 3  # layers unpacked at a time: that is bound by the disk


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSource:
    """A layer to import. `open` fetches it from `source` and returns an open file; `name` is shown in progress."""

    name: str
    size: int
    source: str
    open: Callable[[], Awaitable[IO[bytes]]]


class ImageImporter:
    """Imports images into a store."""

    def __init__(self, disk: ImageDisk, collector: ImageCollector, limits: UnpackLimits) -> None:
        self.disk = disk
        self.quick_threads = Threads(_FETCHES_PER_IMAGE)  # for short work: it never waits for unpacking
        self.slow_threads = Threads(_UNPACKS)
        self._collector = collector
        self._limits = limits
        self._sources = KeyedSemaphore(_FETCHES_PER_SOURCE)
        self._layer_locks = KeyedSemaphore(1)
        self._tasks = TaskBag()

    async def close(self) -> None:
        """Cancel imports that are under way."""
        await self._tasks.cancel()
        for threads in (self.quick_threads, self.slow_threads):
            await asyncio.to_thread(threads.close)

    def check_config(self, data: bytes, layers: int) -> ImageConfig:
        """Parse the config of an image with this number of layers; ValueError if it cannot be used here."""
        subject = f"config {digest_of(data)}"
        config = read_config(data, subject)
        if config.os not in ("", "linux"):
            raise ValueError(f"{subject}: key os: {config.os[:40]!r}: only images for linux can be used")
        if len(config.diff_ids) != layers:
            raise ValueError(
                f"{subject}: key rootfs.diff_ids: {len(config.diff_ids)} layers, the manifest has {layers}"
            )
        return config

    async def import_image(
        self,
        config_data: bytes,
        layers: Sequence[LayerSource],
        progress: Progress,
        *,
        tags: tuple[str, ...],
        digests: tuple[str, ...],
        size: int,
    ) -> IndexEntry:
        """Import an image: layers that are missing, then the image itself, with these names."""
        config = self.check_config(config_data, len(layers))
        entry = IndexEntry(id=digest_of(config_data), tags=tags, digests=digests, size=max(size, 1))
        claim = self.disk.claim_layers(chain_ids(config.diff_ids))
        try:
            with ExitStack() as stack:
                await self.quick_threads.run(lambda _: stack.enter_context(claim))
                await self.quick_threads.run(lambda _: self._check_space(config, layers))
                await self._import_layers(config, layers, progress)
                return await self.quick_threads.run(lambda _: self._commit(entry, config_data))
        finally:
            self._collector.request()  # an image that lost its name, or layers of a failed import

    def _check_space(self, config: ImageConfig, layers: Sequence[LayerSource]) -> None:
        """OSError if there is no space even for the compressed layers: unpacked they seldom take less."""
        chain = chain_ids(config.diff_ids)
        needed = sum(
            layer.size for layer, chain_id in zip(layers, chain, strict=True) if not self.disk.has_layer(chain_id)
        )
        free = self.disk.free()
        if needed > free:
            message = f"not enough space: {needed} bytes are needed and {free} are free"
            raise OSError(errno.ENOSPC, message, str(self.disk.root))

    def _commit(self, entry: IndexEntry, config_data: bytes) -> IndexEntry:
        with self.disk.locked():
            self.disk.put_config(entry.id, config_data)
            index = self.disk.change(lambda index: index.with_image(entry))
        return index.get(entry.id) or entry

    async def _import_layers(self, config: ImageConfig, layers: Sequence[LayerSource], progress: Progress) -> None:
        chain = chain_ids(config.diff_ids)
        fetching = asyncio.Semaphore(_FETCHES_PER_IMAGE)
        tasks: list[asyncio.Task[Exception | None]] = []
        for at, layer in enumerate(layers):
            progress(PullProgress(part=layer.name, phase=PullPhase.WAITING, total=layer.size))
            below = tasks[-1] if tasks else None
            work = self._import_layer(layer, config.diff_ids[at], chain[: at + 1], below, fetching, progress)
            tasks.append(self._tasks.spawn(work, name=f"image layer {short(chain[at])}"))
        try:
            left = set(tasks)
            while left:
                done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:  # from the lowest on: its failure makes those above fail
                    if task in done and (error := task.result()) is not None:
                        raise error
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _import_layer(
        self,
        layer: LayerSource,
        diff_id: str,
        chain: tuple[str, ...],
        below: "asyncio.Task[Exception | None] | None",
        fetching: asyncio.Semaphore,
        progress: Progress,
    ) -> Exception | None:
        """Import a layer. An error is returned, for the caller, and is no failure of the task."""
        try:
            async with self._layer_locks.hold(chain[-1]):
                if self.disk.has_layer(chain[-1]):
                    progress(PullProgress(part=layer.name, phase=PullPhase.EXISTS, done=layer.size, total=layer.size))
                    return None
                async with fetching, self._sources.hold(layer.source):
                    file = await layer.open()
                with file:
                    if below is not None:
                        await asyncio.wait((below,))
                        if below.cancelled() or below.result() is not None:
                            return RuntimeError("the layer below could not be imported")
                    progress(
                        PullProgress(part=layer.name, phase=PullPhase.UNPACKING, done=layer.size, total=layer.size)
                    )
                    await self.slow_threads.run(lambda stopped: self._unpack(file, layer, diff_id, chain, stopped))
            progress(PullProgress(part=layer.name, phase=PullPhase.DONE, done=layer.size, total=layer.size))
        except Exception as error:
            return error
        return None

    async def import_archive_image(self, files: ArchiveFiles, image: FoundImage, progress: Progress) -> IndexEntry:
        """Import an image of an archive."""

        def layer_source(found: LayerFile) -> LayerSource:
            async def open_layer() -> IO[bytes]:
                await self.slow_threads.run(lambda stopped: check_layer(files, found, stopped))
                return files.open(found.name)

            return LayerSource(name=found.digest or found.name, size=found.size, source="", open=open_layer)

        layers = [layer_source(found) for found in image.layers]
        return await self.import_image(
            image.config, layers, progress, tags=image.tags, digests=image.digests, size=image.size
        )

    def _unpack(
        self, file: IO[bytes], layer: LayerSource, diff_id: str, chain: tuple[str, ...], stopped: Callable[[], bool]
    ) -> None:
        folder = self.disk.new_path("layer")
        folder.mkdir(mode=0o700)
        try:
            below = [self.disk.layer(chain_id) for chain_id in chain[:-1]]
            with TarSplitWriter(folder / SPLIT) as split:
                found = unpack(
                    file, folder / "fs", below, self.disk.form, limits=self._limits, split=split, stopped=stopped
                )
            found = replace(found, size=found.size + split.size, inodes=found.inodes + 1)
            if found.diff_id != diff_id:
                raise ValueError(f"its content has the digest {found.diff_id}, the config says {diff_id}")
            self.disk.put_layer(chain[-1], folder, found)
        except ValueError as error:
            discard(folder)
            raise ValueError(f"layer {layer.name}: {error}") from None
        except BaseException:
            discard(folder)
            raise
