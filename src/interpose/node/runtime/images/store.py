"""The image store: pull, import, look up, remove, and keep layers for containers.

Several processes may use one store. An image is in the index only when it is complete; what a killed process left is
removed when the store is opened next.
"""

import asyncio
import logging
import platform as machine
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TypeAlias

from interpose.log import kv
from interpose.node.runtime.images import archive
from interpose.node.runtime.images.archive_names import full_name, tag_of
from interpose.node.runtime.images.concurrency import Threads
from interpose.node.runtime.images.disk import ImageDisk
from interpose.node.runtime.images.gc import ImageCollector
from interpose.node.runtime.images.importer import ImageImporter
from interpose.node.runtime.images.index import ImageIndex, IndexEntry
from interpose.node.runtime.images.manifests import Platform, chain_ids, linux_platform, read_config
from interpose.node.runtime.images.registry.client import RegistryClient
from interpose.node.runtime.images.registry.docker_config import credentials_for_registry
from interpose.node.runtime.images.registry.endpoints import Registries
from interpose.node.runtime.images.registry.pull import pull_image
from interpose.node.runtime.images.registry.reference import is_digest, parse_reference
from interpose.node.runtime.images.saving.archive import ImageToSave, LayerFolder, SavedImage, merge_by_id, save_images
from interpose.node.runtime.images.types import Auth, Progress, StoredImage, UnpackLimits, ignore_progress

# By name: `list` is a method below.
Images: TypeAlias = list[StoredImage]
Paths: TypeAlias = list[Path]

_log = logging.getLogger(__name__)


class LocalImageStore:
    """Images in a folder. ValueError for a bad name or archive, PullError for a failed pull."""

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
        self._importer = ImageImporter(self._disk, self._collector, limits or UnpackLimits())

    def load(self) -> None:
        """Open the store and remove what killed processes left. Blocking. ConfigError if the folder is not a store."""
        removed = self._disk.open()
        try:
            removed += self._disk.collect()
        except OSError as error:  # the next collection tries again
            _log.warning("Failed to remove unused image data", extra=kv(err=str(error)))
        if removed:
            _log.info("Removed leftover image data", extra={"kv": {"count": len(removed)}})

    async def close(self) -> None:
        """Cancel imports, and close connections and threads."""
        await self._importer.close()
        await self._registry.close()
        await self._collector.close()
        await asyncio.to_thread(self._disk.close)

    # -- look-up

    @property
    def overlay_form(self) -> bool:
        """Whether the layers can be mounted with overlay; if not, `flatten` copies them."""
        return self._disk.form.name == "overlay"

    async def list(self) -> Images:
        """All images whose config can be read."""
        images = (self._stored(entry) for entry in self._disk.cached_index().entries)
        return [image for image in images if image is not None]

    async def get(self, text: str) -> StoredImage | None:
        """The image of a name, an id, or a unique prefix of an id; ValueError for a text that can be none of them."""
        entry = self._disk.cached_index().find(text)
        return self._stored(entry) if entry is not None else None

    def layers(self, image: StoredImage) -> Paths:
        """The folders of the layers of an image, lowest first."""
        return [self._disk.layer(chain_id) for chain_id in image.chain]

    def config_data(self, image: StoredImage) -> bytes:
        """The config blob of an image. Blocking."""
        return self._disk.config_data(image.id)

    def usage(self) -> tuple[int, int]:
        """Bytes and inodes of all layers and configs. Blocking."""
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

    # -- import

    async def pull(self, reference: str, auth: Auth | None = None, progress: Progress = ignore_progress) -> StoredImage:
        """Pull an image from its registry; layers that are in the store are not fetched again."""
        name = parse_reference(reference)
        credentials = credentials_for_registry(auth, name.domain)
        entry = await pull_image(self._importer, self._registry, name, credentials, self._platform, progress)
        return self._imported(entry)

    async def import_file(self, path: Path | str, name: str = "", progress: Progress = ignore_progress) -> Images:
        """Import the images of an archive or a layout; `name` is an additional name for them."""
        repository = parse_reference(name).repository if name else ""
        try:
            async with _OpenArchive(Path(path), self._disk, self._importer.slow_threads) as files:
                found = await self._importer.slow_threads.run(
                    lambda _: archive.find_images(files, self._platform, base=repository)
                )
                if name:
                    found = archive.add_name(found, name)
                entries = [await self._importer.import_archive_image(files, image, progress) for image in found]
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        return [self._imported(entry) for entry in entries]

    async def tag(self, text: str, names: Sequence[str]) -> StoredImage | None:
        """Give an image more names, which other images lose; None if there is no such image."""
        tags = [tag_of(name) for name in names]

        def change(_stopped: object) -> IndexEntry | None:
            with self._disk.locked():
                known = self._disk.index().find(text)
                if known is None:
                    return None
                return self._disk.change(lambda index: index.with_tags(known.id, tags)).get(known.id)

        entry = await self._importer.quick_threads.run(change)
        return None if entry is None else self._imported(entry)

    async def save(self, references: Sequence[str], target: IO[bytes]) -> Sequence[SavedImage]:
        """Write an archive of images; an image that is requested by a name has that name in it.

        ValueError names an image that is not in the store, or cannot be read.
        """
        images = [self._to_save(await self._get_known(reference), reference) for reference in references]
        chains = [chain_ids(read_config(image.config, f"config {image.id}").diff_ids) for image in images]
        with ExitStack() as stack:
            claim = self._disk.claim_layers([chain_id for chain in chains for chain_id in chain])
            await self._importer.quick_threads.run(lambda _: stack.enter_context(claim))
            form = self._disk.form
            return await self._importer.slow_threads.run(
                lambda stopped: save_images(merge_by_id(images), target, form, stopped)
            )

    async def _get_known(self, reference: str) -> StoredImage:
        found = await self.get(reference)
        if found is None:
            raise ValueError(f"image {reference}: not found")
        return found

    def _to_save(self, image: StoredImage, reference: str) -> ImageToSave:
        name = _try_full_name(reference)
        layers = zip(image.chain, image.config.diff_ids, strict=True)
        return ImageToSave(
            id=image.id,
            config=self._disk.config_data(image.id),
            tags=(name,) if name in image.repo_tags else (),
            layers=tuple(
                LayerFolder(files=self._disk.layer(chain_id), split=self._disk.split(chain_id), diff_id=diff_id)
                for chain_id, diff_id in layers
            ),
        )

    def _imported(self, entry: IndexEntry) -> StoredImage:
        image = self._stored(entry)
        if image is None:
            raise ValueError(f"image {entry.id}: it was removed while it was imported")
        return image

    # -- removal

    async def remove(self, text: str) -> bool:
        """Remove an image with all of its names; False if there is none. Unused layers are removed, too."""

        def without(index: ImageIndex) -> ImageIndex:
            entry = index.find(text)
            return index.without_image(entry.id) if entry is not None else index

        return await self._shrink(without)

    async def untag(self, text: str) -> bool:
        """Remove a name, and the image with its last name; an id removes the image. False if there is no such image."""

        def without(index: ImageIndex) -> ImageIndex:
            entry = index.find(text)
            if entry is None:
                return index
            name = "" if is_digest(text) else _try_full_name(text)
            return index.without_name(name) if name in entry else index.without_image(entry.id)

        return await self._shrink(without)

    async def _shrink(self, edit: Callable[[ImageIndex], ImageIndex]) -> bool:
        changed = await self._importer.quick_threads.run(lambda _: self._disk.shrink(edit))
        await self._collector.run()  # a caller that removes an image wants its space
        return changed

    # -- containers

    async def hold(self, container_id: str, image: StoredImage) -> None:
        """Keep the layers of an image until `release`, even if the image is removed; ValueError if it is gone."""
        await asyncio.to_thread(self._disk.hold, container_id, image.id, image.chain)

    async def release(self, container_id: str) -> None:
        """Release all that a container held (`hold` may be called with its id, a dot and more); may be repeated.

        Unused layers are removed in the background.
        """
        if await asyncio.to_thread(self._disk.release, container_id):
            self._collector.request()

    def holds(self) -> dict[str, str]:
        """Images by the containers that hold their layers. Blocking."""
        return {container: str(hold.get("image", "")) for container, hold in self._disk.holds().items()}


def _try_full_name(text: str) -> str:
    try:
        return full_name(text)
    except ValueError:
        return ""  # a prefix of an id


class _OpenArchive:
    """Opens an archive for the time of an import."""

    def __init__(self, path: Path, disk: ImageDisk, threads: Threads) -> None:
        self._path = path
        self._disk = disk
        self._threads = threads
        self._files: archive.ArchiveFiles | None = None

    async def __aenter__(self) -> archive.ArchiveFiles:
        self._files = await self._threads.run(
            lambda stopped: archive.open_files(self._path, self._disk.new_path("archive"), stopped)
        )
        return self._files

    async def __aexit__(self, *_: object) -> None:
        if self._files is not None:
            self._files.close()
