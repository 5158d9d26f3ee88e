"""Images come side by side."""

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

import pytest

from interpose.node.runtime.images.disk import ImageDisk
from interpose.node.runtime.images.gc import ImageCollector
from interpose.node.runtime.images.importer import ImageImporter, LayerSource
from interpose.node.runtime.images.index import IndexEntry
from interpose.node.runtime.images.types import UnpackLimits, ignore_progress
from interpose.testing.eventually import WAIT_LIMIT, eventually
from tests.support.node.image_files import MadeImage, layer, make_image

GOOD = make_image([layer({"a": "1"}), layer({"b": "2"})])
SLOW = [make_image([layer({f"{number}.{at}": ""}) for at in range(4)]) for number in range(5)]


class Source:
    """Where layers come from; nothing does until it is opened."""

    def __init__(self, name: str, *, at_once: bool) -> None:
        self.name = name
        self.asked = 0
        self.begun = asyncio.Event()
        self.open = asyncio.Event()
        if at_once:
            self.open.set()

    def layer(self, data: bytes) -> LayerSource:
        """A layer from here."""

        async def opened() -> IO[bytes]:
            self.asked += 1
            self.begun.set()
            await self.open.wait()
            return io.BytesIO(data)

        return LayerSource(name="x", size=len(data), source=self.name, open=opened)


@pytest.fixture
async def importer(tmp_path: Path) -> AsyncIterator[ImageImporter]:
    """Into a new store."""
    disk = ImageDisk(tmp_path / "store", durable=False)
    disk.open()
    collector = ImageCollector(disk.collect)
    importer = ImageImporter(disk, collector, UnpackLimits())
    yield importer
    await importer.close()
    await collector.close()
    disk.close()


async def import_image(importer: ImageImporter, image: MadeImage, source: Source) -> IndexEntry:
    """All of an image."""
    layers = [source.layer(data) for data in image.layers]
    return await importer.import_image(image.config, layers, ignore_progress, tags=(), digests=(), size=1)


async def test_a_source_that_gives_nothing_holds_up_nobody_else(importer: ImageImporter) -> None:
    """However many images are wanted from it; and only so much is asked of it at a time."""
    slow, good = Source("slow", at_once=False), Source("good", at_once=True)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(import_image(importer, image, slow)) for image in SLOW]
        await eventually(lambda: slow.asked == 12, "as much as may be asked of one source")
        async with asyncio.timeout(WAIT_LIMIT):
            assert (await import_image(importer, GOOD, good)).id == GOOD.id
        assert not any(task.done() for task in waiting)
        assert slow.asked == 12
        slow.open.set()
    assert len(importer.disk.index().entries) == 6


async def test_what_others_need_no_more_is_collected_meanwhile(importer: ImageImporter) -> None:
    """The layers of an image on its way are not."""
    slow, good = Source("slow", at_once=False), Source("good", at_once=True)
    await import_image(importer, GOOD, good)
    both = make_image([layer({"a": "1"}), layer({"c": "3"})])
    task = asyncio.create_task(import_image(importer, both, slow))
    await slow.begun.wait()
    disk = importer.disk
    with disk.locked():
        disk.change(lambda index: index.without_image(GOOD.id))
    await asyncio.to_thread(disk.collect)
    assert len(list((disk.root / "layers").iterdir())) == 1
    slow.open.set()
    assert (await task).id == both.id
    assert slow.asked == 1
