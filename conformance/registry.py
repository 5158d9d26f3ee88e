"""Registries on loopback for points, in a thread of their own: open to all, with a password, with tokens."""

from __future__ import annotations

import asyncio
import threading
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.node.image_files import MadeImage, layer, make_image
from tests.support.node.registry import Door, FakeRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator

USER, PASSWORD = "me", "secret"


class Shelf:
    """What can be pulled. Every image that is put there is one of its own, so that points do not meet."""

    def __init__(self) -> None:
        self.open = FakeRegistry()
        self.closed = FakeRegistry(door=Door.BASIC, users={USER: PASSWORD})
        self.tokens = FakeRegistry(door=Door.TOKEN, users={USER: PASSWORD})

    @property
    def all(self) -> tuple[FakeRegistry, ...]:
        return self.open, self.closed, self.tokens

    def put(self, *tags: str, name: str = "", where: FakeRegistry | None = None, **config: Any) -> Put:
        """An image under these tags of a new name."""
        image = small_image(**config)
        registry, name = where or self.open, name or f"team/{uuid.uuid4().hex[:12]}"
        for tag in tags or ("latest",):
            registry.put(name, tag, image)
        return Put(f"{registry.host}/{name}", image)


class Put:
    """An image that can be pulled."""

    def __init__(self, name: str, image: MadeImage) -> None:
        self.name = name
        self.image = image
        self.digest = f"{name}@{image.digest}"

    def tag(self, tag: str) -> str:
        """The reference of the image by a tag."""
        return f"{self.name}:{tag}"


def small_image(**config: Any) -> MadeImage:
    """An image with one file, unlike any other."""
    return make_image([layer({"dir/": 0o755, "dir/file": f"{uuid.uuid4()}\n"})], **config)


@contextmanager
def open_shelf() -> Iterator[Shelf]:
    """The registries serve inside of the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="registries", daemon=True)
    thread.start()
    shelf = Shelf()
    try:
        for registry in shelf.all:
            asyncio.run_coroutine_threadsafe(registry.__aenter__(), loop).result(WAIT_LIMIT)
        yield shelf
        for registry in shelf.all:
            asyncio.run_coroutine_threadsafe(registry.__aexit__(), loop).result(WAIT_LIMIT)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_LIMIT)
        loop.close()
