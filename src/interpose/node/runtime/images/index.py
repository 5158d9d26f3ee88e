"""The index of a store: its images and their names. Pure: a document in, a document out.

Invariant: a name is the name of one image. A tag that moves leaves the image it was on, which stays.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from interpose.node.runtime.images.registry.reference import find_id, is_digest, parse_reference

_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """An image in the index; `id` is the digest of its config."""

    id: str
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    size: int
    pinned: bool = False

    def __contains__(self, name: object) -> bool:
        return name in self.tags or name in self.digests


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageIndex:
    """All images of a store, in the order they were added."""

    entries: tuple[IndexEntry, ...] = ()

    def get(self, image_id: str) -> IndexEntry | None:
        """The image with exactly this id; None without one."""
        return next((entry for entry in self.entries if entry.id == image_id), None)

    def find(self, text: str) -> IndexEntry | None:
        """The image of a name, an id or a unique prefix of an id; None without one.

        A name counts before an id prefix. ValueError for a text that can be neither, or a prefix of several ids.
        """
        if is_digest(text):
            return self.get(text)
        name = str(parse_reference(text))
        named = next((entry for entry in self.entries if name in entry), None)
        if named is not None:
            return named
        found = find_id(text, [entry.id for entry in self.entries])
        return self.get(found) if found is not None else None

    def with_image(self, image: IndexEntry) -> "ImageIndex":
        """The index with an image, or with more names for it; other images lose these names."""
        known = self.get(image.id)
        names = frozenset((*image.tags, *image.digests))
        others = tuple(_without(entry, names) for entry in self.entries if entry.id != image.id)
        if known is not None:
            image = replace(
                image,
                tags=_union(known.tags, image.tags),
                digests=_union(known.digests, image.digests),
                size=max(known.size, image.size),
                pinned=known.pinned or image.pinned,
            )
        return ImageIndex(entries=(*others, image))

    def with_tags(self, image_id: str, tags: Iterable[str]) -> "ImageIndex":
        """The index with more tags for an image; other images lose these tags."""
        known = self.get(image_id)
        return self if known is None else self.with_image(replace(known, tags=tuple(tags)))

    def without_image(self, image_id: str) -> "ImageIndex":
        """The index without an image and all of its names."""
        return ImageIndex(entries=tuple(entry for entry in self.entries if entry.id != image_id))

    def without_name(self, name: str) -> "ImageIndex":
        """The index without a name; also without its image, if that was the last name.

        With the last tag of a repository the digests of that repository go as well: no user gave them as names.
        """
        entries = []
        for entry in self.entries:
            if name not in entry:
                entries.append(entry)
                continue
            remaining = _without(entry, frozenset((name,)))
            remaining = _without(remaining, frozenset(_digests_without_tag(remaining, name)))
            if remaining.tags or remaining.digests:
                entries.append(remaining)
        return ImageIndex(entries=tuple(entries))


def _digests_without_tag(entry: IndexEntry, name: str) -> Iterable[str]:
    """The digests of the repository of a removed tag, if no tag of that repository is left."""
    removed = parse_reference(name)
    if removed.digest or any(parse_reference(tag).repository == removed.repository for tag in entry.tags):
        return ()
    return [digest for digest in entry.digests if parse_reference(digest).repository == removed.repository]


def _without(entry: IndexEntry, names: frozenset[str]) -> IndexEntry:
    return replace(
        entry,
        tags=tuple(name for name in entry.tags if name not in names),
        digests=tuple(name for name in entry.digests if name not in names),
    )


def _union(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def write_index(index: ImageIndex) -> bytes:
    """The index as a JSON document."""
    images = [
        {
            "id": entry.id,
            "tags": list(entry.tags),
            "digests": list(entry.digests),
            "size": entry.size,
            "pinned": entry.pinned,
        }
        for entry in index.entries
    ]
    return json.dumps({"version": _VERSION, "images": images}, indent=1).encode() + b"\n"


def read_index(data: bytes) -> ImageIndex:
    """The index in a JSON document; ValueError if it is not an index of this version."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(document, dict) or document.get("version") != _VERSION:
        raise ValueError(f"key version: it is not {_VERSION}: another version of this program wrote it")
    images = document.get("images")
    if not isinstance(images, list):
        raise ValueError("key images: it is not a list")
    return ImageIndex(entries=tuple(_entry(image, at) for at, image in enumerate(images)))


def _entry(found: object, at: int) -> IndexEntry:
    fields: Mapping[str, Any] = found if isinstance(found, dict) else {}
    image_id, size = fields.get("id"), fields.get("size")
    tags, digests = fields.get("tags"), fields.get("digests")
    if not isinstance(image_id, str) or not is_digest(image_id) or not isinstance(size, int):
        raise ValueError(f"key images[{at}]: it has no id and size")
    if not isinstance(tags, list) or not isinstance(digests, list):
        raise ValueError(f"key images[{at}]: it has no lists of tags and digests")
    return IndexEntry(
        id=image_id,
        tags=tuple(map(str, tags)),
        digests=tuple(map(str, digests)),
        size=size,
        pinned=fields.get("pinned") is True,
    )
