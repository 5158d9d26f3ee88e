"""How an image comes into a store: its layers one after the other, then itself, in one step.

Layers are fetched side by side and unpacked from the lowest on. Two who bring the same layer at the same time do the
work once. What an image needs is not removed from the store while it is brought.

One source that is slow holds up only those who want something from it: there is a bound for each image, and one for
each source, but none for all together.
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

_OF_AN_IMAGE: Final = 3  # layers fetched at a time
_OF_A_SOURCE: Final = 12
_AT_WORK: Final = 3  # unpacked at a time: that is bound by the disk


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSource:
    """A layer to come. `open` fetches it from `source` and gives an open file; `what` is its name in progress."""

    what: str
    size: int
    source: str
    open: Callable[[], Awaitable[IO[bytes]]]


class ImageImporter:
    """Brings images into a store."""

    def __init__(self, disk: ImageDisk, collector: ImageCollector, limits: UnpackLimits) -> None:
        self.disk = disk
        self.short = Threads(_OF_AN_IMAGE)  # never wait for the others
        self.long = Threads(_AT_WORK)
        self._collector = collector
        self._limits = limits
        self._sources = KeyedSemaphore(_OF_A_SOURCE)
        self._layer_turns = KeyedSemaphore(1)
        self._tasks = TaskBag()

    async def close(self) -> None:
        """Give up what is on the way."""
        await self._tasks.cancel()
        for threads in (self.short, self.long):
            await asyncio.to_thread(threads.close)

    def config_of(self, data: bytes, layers: int) -> ImageConfig:
        """The config of an image that has so many layers; ValueError if it cannot be used here."""
        what = f"config {digest_of(data)}"
        config = read_config(data, what)
        if config.os not in ("", "linux"):
            raise ValueError(f"{what}: key os: {config.os[:40]!r}: only images for linux can be used")
        if len(config.diff_ids) != layers:
            raise ValueError(f"{what}: key rootfs.diff_ids: {len(config.diff_ids)} layers, the manifest has {layers}")
        return config

    async def bring(
        self,
        config_data: bytes,
        layers: Sequence[LayerSource],
        progress: Progress,
        *,
        tags: tuple[str, ...],
        digests: tuple[str, ...],
        size: int,
    ) -> IndexEntry:
        """Bring an image: layers that are missing, then the image itself, with these names."""
        config = self.config_of(config_data, len(layers))
        entry = IndexEntry(id=digest_of(config_data), tags=tags, digests=digests, size=max(size, 1))
        claim = self.disk.bringing(chain_ids(config.diff_ids))
        try:
            with ExitStack() as stack:
                await self.short.run(lambda _: stack.enter_context(claim))
                await self.short.run(lambda _: self._check_room(config, layers))
                await self._layers(config, layers, progress)
                return await self.short.run(lambda _: self._commit(entry, config_data))
        finally:
            self._collector.ask()  # an image that lost its name, or layers of one that did not come

    def _check_room(self, config: ImageConfig, layers: Sequence[LayerSource]) -> None:
        """OSError if not even the layers as they come have room: unpacked they seldom take less."""
        chain = chain_ids(config.diff_ids)
        needed = sum(layer.size for layer, one in zip(layers, chain, strict=True) if not self.disk.has_layer(one))
        free = self.disk.free()
        if needed > free:
            words = f"not enough space: {needed} bytes are needed and {free} are free"
            raise OSError(errno.ENOSPC, words, str(self.disk.root))

    def _commit(self, entry: IndexEntry, config_data: bytes) -> IndexEntry:
        with self.disk.locked():
            self.disk.put_config(entry.id, config_data)
            index = self.disk.change(lambda index: index.with_image(entry))
        return index.get(entry.id) or entry

    async def _layers(self, config: ImageConfig, layers: Sequence[LayerSource], progress: Progress) -> None:
        chain = chain_ids(config.diff_ids)
        fetching = asyncio.Semaphore(_OF_AN_IMAGE)
        tasks: list[asyncio.Task[Exception | None]] = []
        for at, layer in enumerate(layers):
            progress(PullProgress(what=layer.what, phase=PullPhase.WAITING, total=layer.size))
            below = tasks[-1] if tasks else None
            work = self._layer(layer, config.diff_ids[at], chain[: at + 1], below, fetching, progress)
            tasks.append(self._tasks.spawn(work, name=f"image layer {short(chain[at])}"))
        try:
            left = set(tasks)
            while left:
                done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:  # from the lowest on: others fail because of it
                    if task in done and (error := task.result()) is not None:
                        raise error
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _layer(
        self,
        layer: LayerSource,
        diff_id: str,
        chain: tuple[str, ...],
        below: "asyncio.Task[Exception | None] | None",
        fetching: asyncio.Semaphore,
        progress: Progress,
    ) -> Exception | None:
        """Bring one layer. What goes wrong is returned: it is the caller's, and no failure of a task."""
        try:
            async with self._layer_turns.turn(chain[-1]):
                if self.disk.has_layer(chain[-1]):
                    progress(PullProgress(what=layer.what, phase=PullPhase.EXISTS, done=layer.size, total=layer.size))
                    return None
                async with fetching, self._sources.turn(layer.source):
                    file = await layer.open()
                with file:
                    if below is not None:
                        await asyncio.wait((below,))
                        if below.cancelled() or below.result() is not None:
                            return RuntimeError("the layer below could not be brought")
                    progress(
                        PullProgress(what=layer.what, phase=PullPhase.UNPACKING, done=layer.size, total=layer.size)
                    )
                    await self.long.run(lambda stopped: self._unpack(file, layer, diff_id, chain, stopped))
            progress(PullProgress(what=layer.what, phase=PullPhase.DONE, done=layer.size, total=layer.size))
        except Exception as error:
            return error
        return None

    async def bring_file(self, files: ArchiveFiles, image: FoundImage, progress: Progress) -> IndexEntry:
        """Bring an image of an archive."""

        def layer_of(found: LayerFile) -> LayerSource:
            async def opened() -> IO[bytes]:
                await self.long.run(lambda stopped: check_layer(files, found, stopped))
                return files.open(found.name)

            return LayerSource(what=found.digest or found.name, size=found.size, source="", open=opened)

        layers = [layer_of(found) for found in image.layers]
        return await self.bring(image.config, layers, progress, tags=image.tags, digests=image.digests, size=image.size)

    def _unpack(
        self, file: IO[bytes], layer: LayerSource, diff_id: str, chain: tuple[str, ...], stopped: Callable[[], bool]
    ) -> None:
        made = self.disk.new_path("layer")
        made.mkdir(mode=0o700)
        try:
            below = [self.disk.layer(one) for one in chain[:-1]]
            with TarSplitWriter(made / SPLIT) as split:
                found = unpack(
                    file, made / "fs", below, self.disk.form, limits=self._limits, split=split, stopped=stopped
                )
            found = replace(found, size=found.size + split.size, inodes=found.inodes + 1)
            if found.diff_id != diff_id:
                raise ValueError(f"its content has the digest {found.diff_id}, the config says {diff_id}")
            self.disk.put_layer(chain[-1], made, found)
        except ValueError as error:
            discard(made)
            raise ValueError(f"layer {layer.what}: {error}") from None
        except BaseException:
            discard(made)
            raise
