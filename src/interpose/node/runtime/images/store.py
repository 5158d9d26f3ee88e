"""The store of images: pull, import, look up, remove, and keep layers for containers.

Several processes may use one store. What is brought counts only when it is whole; a process that is killed leaves
nothing that counts, and whoever opens the store next removes it.
"""

import asyncio
import logging
import platform as machine
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TypeAlias

from interpose.log import kv
from interpose.node.runtime.images import archive as archives
from interpose.node.runtime.images.archive_names import tag_of, written_out
from interpose.node.runtime.images.concurrency import Threads
from interpose.node.runtime.images.disk import ImageDisk
from interpose.node.runtime.images.gc import ImageCollector
from interpose.node.runtime.images.importer import ImageImporter
from interpose.node.runtime.images.index import ImageIndex, IndexEntry
from interpose.node.runtime.images.manifests import Platform, chain_ids, linux_platform, read_config
from interpose.node.runtime.images.registry.client import RegistryClient
from interpose.node.runtime.images.registry.docker_config import shown_to
from interpose.node.runtime.images.registry.endpoints import Registries
from interpose.node.runtime.images.registry.pull import pull_image
from interpose.node.runtime.images.registry.reference import is_digest, parse_reference
from interpose.node.runtime.images.saving.archive import ImageToSave, LayerFolder, SavedImage, merged, save_images
from interpose.node.runtime.images.types import Auth, Progress, StoredImage, UnpackLimits, silent

# By name: `list` is a method below.
Images: TypeAlias = list[StoredImage]
Paths: TypeAlias = list[Path]

_log = logging.getLogger(__name__)


class LocalImageStore:
    """Images in a folder. ValueError says what is wrong with a name or an archive, PullError why a pull failed."""

    def __init__(
        self,
        root: Path,
        *,
        registries: Registries | None = None,
        registry: RegistryClient | None = None,
        platform: Platform | None = None,
        limits: UnpackLimits | None = None,
        durable: bool = True,
    ) -> None:
        self._platform = platform or linux_platform(machine.machine())
        self._disk = ImageDisk(root, durable=durable)
        self._registry = registry or RegistryClient(registries or Registries())
        self._collector = ImageCollector(self._disk.collect)
        self._bringer = ImageImporter(self._disk, self._collector, limits or UnpackLimits())

    def load(self) -> None:
        """Open the store; what killed processes left is removed. Blocking. ConfigError if it is no store of ours."""
        removed = self._disk.open()
        try:
            removed += self._disk.collect()
        except OSError as error:  # another collection follows
            _log.warning("Failed to remove unused image data", extra=kv(err=str(error)))
        if removed:
            _log.info("Removed leftover image data", extra={"kv": {"count": len(removed)}})

    async def close(self) -> None:
        """Let go of everything; what is on the way is given up."""
        await self._bringer.close()
        await self._registry.close()
        await self._collector.close()
        await asyncio.to_thread(self._disk.close)

    # -- looking

    @property
    def overlay_form(self) -> bool:
        """Whether the layers can be mounted with overlay; if not, `flatten` copies them."""
        return self._disk.form.name == "overlay"

    async def list(self) -> Images:
        """All images."""
        images = (self._stored(entry) for entry in self._disk.seen().entries)
        return [image for image in images if image is not None]

    async def get(self, text: str) -> StoredImage | None:
        """The image that a name, an id, or the unique beginning of an id means; ValueError for what can be none."""
        entry = self._disk.seen().find(text)
        return self._stored(entry) if entry is not None else None

    def layers(self, image: StoredImage) -> Paths:
        """Where the layers of an image are, lowest first."""
        return [self._disk.layer(one) for one in image.chain]

    def config_data(self, image: StoredImage) -> bytes:
        """The config of an image as it came. Blocking."""
        return self._disk.config_data(image.id)

    def usage(self) -> tuple[int, int]:
        """Bytes and inodes of everything."""
        return self._disk.usage()

    def _stored(self, entry: IndexEntry) -> StoredImage | None:
        try:
            config = self._disk.config(entry.id)
        except (OSError, ValueError) as error:
            _log.warning("Unusable image", extra={"kv": {"image": entry.id, "error": str(error)}})
            return None
        return StoredImage(
            id=entry.id,
            repo_tags=entry.tags,
            repo_digests=entry.digests,
            size=max(entry.size, 1),
            config=config,
            chain=chain_ids(config.diff_ids),
            pinned=entry.pinned,
        )

    # -- bringing

    async def pull(self, reference: str, auth: Auth | None = None, progress: Progress = silent) -> StoredImage:
        """Get an image from its registry; what is here already is not fetched again."""
        name = parse_reference(reference)
        shown = shown_to(auth, name.domain)
        entry = await pull_image(self._bringer, self._registry, name, shown, self._platform, progress)
        return self._here(entry)

    async def import_file(self, path: Path | str, name: str = "", progress: Progress = silent) -> Images:
        """Get the images of an archive or a layout. `name`: what they are called besides."""
        repository = parse_reference(name).repository if name else ""
        with_files = _WithFiles(Path(path), self._disk, self._bringer.long)
        try:
            async with with_files as files:
                found = await self._bringer.long.run(
                    lambda _: archives.find_images(files, self._platform, base=repository)
                )
                if name:
                    found = archives.named(found, name)
                entries = [await self._bringer.bring_file(files, image, progress) for image in found]
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        return [self._here(entry) for entry in entries]

    async def tag(self, text: str, names: Sequence[str]) -> StoredImage | None:
        """Give an image more names, which are no other's any more; None if there is none."""
        tags = [tag_of(name) for name in names]

        def change(_stopped: object) -> IndexEntry | None:
            with self._disk.locked():
                known = self._disk.index().find(text)
                if known is None:
                    return None
                return self._disk.change(lambda index: index.with_tags(known.id, tags)).get(known.id)

        entry = await self._bringer.short.run(change)
        return None if entry is None else self._here(entry)

    async def save(self, references: Sequence[str], target: IO[bytes]) -> Sequence[SavedImage]:
        """Write an archive of images; one that is asked for by a name has that name there. ValueError names one that is
        not there, or cannot be read."""
        wanted = [self._to_save(await self._known(one), one) for one in references]
        chains = [chain_ids(read_config(one.config, f"config {one.id}").diff_ids) for one in wanted]
        with ExitStack() as stack:
            claim = self._disk.bringing([one for chain in chains for one in chain])
            await self._bringer.short.run(lambda _: stack.enter_context(claim))
            form = self._disk.form
            return await self._bringer.long.run(lambda stopped: save_images(merged(wanted), target, form, stopped))

    async def _known(self, reference: str) -> StoredImage:
        found = await self.get(reference)
        if found is None:
            raise ValueError(f"image {reference}: not found")
        return found

    def _to_save(self, image: StoredImage, reference: str) -> ImageToSave:
        name = _written_out(reference)
        layers = zip(image.chain, image.config.diff_ids, strict=True)
        return ImageToSave(
            id=image.id,
            config=self._disk.config_data(image.id),
            tags=(name,) if name in image.repo_tags else (),
            layers=tuple(
                LayerFolder(files=self._disk.layer(one), split=self._disk.split(one), diff_id=diff_id)
                for one, diff_id in layers
            ),
        )

    def _here(self, entry: IndexEntry) -> StoredImage:
        image = self._stored(entry)
        if image is None:
            raise ValueError(f"image {entry.id}: it was removed while it came")
        return image

    # -- removing

    async def remove(self, text: str) -> bool:
        """Remove an image with all of its names; False if there is none. Its layers go when nobody needs them."""

        def without(index: ImageIndex) -> ImageIndex:
            entry = index.find(text)
            return index.without_image(entry.id) if entry is not None else index

        return await self._shrink(without)

    async def untag(self, text: str) -> bool:
        """Remove one name, and the image if that was its last one; an id removes the image. False if there is none."""

        def without(index: ImageIndex) -> ImageIndex:
            entry = index.find(text)
            if entry is None:
                return index
            name = "" if is_digest(text) else _written_out(text)
            return index.without_name(name) if name in entry else index.without_image(entry.id)

        return await self._shrink(without)

    async def _shrink(self, how: Callable[[ImageIndex], ImageIndex]) -> bool:
        changed = await self._bringer.short.run(lambda _: self._disk.shrink(how))
        await self._collector.done()  # whoever removes an image wants its room
        return changed

    # -- containers

    async def hold(self, container_id: str, image: StoredImage) -> None:
        """Keep the layers of an image until `release`, whatever becomes of the image; ValueError if it is gone."""
        await asyncio.to_thread(self._disk.hold, container_id, image.id, image.chain)

    async def release(self, container_id: str) -> None:
        """The container is gone, with all it held (`hold` may be called with its id, a dot and more). Any number of
        times. What nobody needs then is removed in time: that is not waited for."""
        if await asyncio.to_thread(self._disk.release, container_id):
            self._collector.ask()

    def holds(self) -> dict[str, str]:
        """Images by the containers that hold their layers. Blocking."""
        return {container: str(hold.get("image", "")) for container, hold in self._disk.holds().items()}


def _written_out(text: str) -> str:
    try:
        return written_out(text)
    except ValueError:
        return ""  # the beginning of an id


class _WithFiles:
    """The files of an archive while they are needed."""

    def __init__(self, path: Path, disk: ImageDisk, threads: Threads) -> None:
        self._path = path
        self._disk = disk
        self._threads = threads
        self._files: archives.ArchiveFiles | None = None

    async def __aenter__(self) -> archives.ArchiveFiles:
        self._files = await self._threads.run(
            lambda stopped: archives.open_files(self._path, self._disk.new_path("archive"), stopped)
        )
        return self._files

    async def __aexit__(self, *_: object) -> None:
        if self._files is not None:
            self._files.close()
