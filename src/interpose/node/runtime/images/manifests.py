"""Manifests, indexes and configs of images, of OCI and of Docker (schema 2). Pure: bytes in, values out.

Errors are ValueErrors that name the blob and the key. Keys that are not needed are ignored.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from interpose.node.runtime.images.registry.reference import encoded, is_digest
from interpose.node.runtime.images.types import ImageConfig

OCI_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX: Final = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST: Final = "application/vnd.docker.distribution.manifest.list.v2+json"
ACCEPTED: Final = (OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_LIST)

# The largest of each kind that a store reads into memory; real ones have some KiB.
MAX_BYTES: Final = 4 << 20
_MAX_LAYERS: Final = 1000
_MAX_SIZE: Final = 1 << 50  # bytes of a blob; all layers together have to fit in what CRI has for a size
_MAX_MANIFESTS: Final = 10_000
# Kinds of layers that cannot be unpacked, by a word in their media type.
_NO_LAYERS: Final = ("encrypted", "in-toto", "cosign")

# Architecture and variant of images, by the machine name of the kernel.
_ARCHITECTURES: Final[Mapping[str, tuple[str, str]]] = {
    "x86_64": ("amd64", ""),
    "aarch64": ("arm64", "v8"),
    "armv7l": ("arm", "v7"),
    "armv6l": ("arm", "v6"),
    "i686": ("386", ""),
    "ppc64le": ("ppc64le", ""),
    "riscv64": ("riscv64", ""),
    "s390x": ("s390x", ""),
    "loongarch64": ("loong64", ""),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Operating system and architecture of an image."""

    os: str
    architecture: str
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """A reference to a blob: digest, size and media type."""

    media_type: str
    digest: str
    size: int
    platform: Platform | None = None
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageManifest:
    """The manifest of an image: its config and its layers, lowest first."""

    config: Descriptor
    layers: tuple[Descriptor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestIndex:
    """An index of manifests, for several platforms or with several names."""

    manifests: tuple[Descriptor, ...]


def digest_of(data: bytes) -> str:
    """The sha256 digest of `data`, with prefix."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def linux_platform(machine: str) -> Platform:
    """The platform of a machine, by its name in `uname -m`."""
    architecture, variant = _ARCHITECTURES.get(machine, (machine, ""))
    return Platform(os="linux", architecture=architecture, variant=variant)


def read_manifest(data: bytes, subject: str) -> ImageManifest | ManifestIndex:
    """Parse a manifest or an index, by its media type; `subject` begins each error."""
    document = _object(data, subject)
    kind = document.get("mediaType", "")
    if document.get("schemaVersion") == 1:
        raise ValueError(f"{subject}: it is a manifest of schema 1, which no tool makes any more: push the image again")
    if kind in (OCI_INDEX, DOCKER_LIST) or (not kind and "manifests" in document):
        return _index(document, subject)
    if kind in (OCI_MANIFEST, DOCKER_MANIFEST) or (not kind and "layers" in document):
        return _manifest(document, subject)
    raise ValueError(f"{subject}: key mediaType: {kind!r} is not a manifest of an image")


def _index(document: Mapping[str, Any], subject: str) -> ManifestIndex:
    entries = document.get("manifests")
    if not isinstance(entries, list) or len(entries) > _MAX_MANIFESTS:
        raise ValueError(f"{subject}: key manifests: it is not a list of at most {_MAX_MANIFESTS} manifests")
    return ManifestIndex(
        manifests=tuple(_descriptor(entry, subject, f"manifests[{at}]") for at, entry in enumerate(entries))
    )


def _manifest(document: Mapping[str, Any], subject: str) -> ImageManifest:
    config = _descriptor(document.get("config"), subject, "config")
    entries = document.get("layers")
    if not isinstance(entries, list) or len(entries) > _MAX_LAYERS:
        raise ValueError(f"{subject}: key layers: it is not a list of at most {_MAX_LAYERS} layers")
    layers = tuple(_descriptor(entry, subject, f"layers[{at}]") for at, entry in enumerate(entries))
    for at, layer in enumerate(layers):
        if any(word in layer.media_type for word in _NO_LAYERS):
            raise ValueError(f"{subject}: key layers[{at}].mediaType: {layer.media_type!r} is not a layer of files")
    return ImageManifest(config=config, layers=layers)


def _descriptor(found: object, subject: str, key: str) -> Descriptor:
    if not isinstance(found, dict):
        raise ValueError(f"{subject}: key {key}: it is not a descriptor with mediaType, digest and size")
    digest, size = found.get("digest"), found.get("size")
    if not isinstance(digest, str) or not is_digest(digest):
        raise ValueError(f"{subject}: key {key}.digest: {digest!r:.100} is not sha256: and 64 hex digits")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _MAX_SIZE:
        raise ValueError(f"{subject}: key {key}.size: {size!r:.100} is not a number of bytes")
    annotations = found.get("annotations")
    return Descriptor(
        media_type=str(found.get("mediaType") or ""),
        digest=digest,
        size=size,
        platform=_platform(found.get("platform")),
        annotations=_texts(annotations),
    )


def _platform(found: object) -> Platform | None:
    if not isinstance(found, dict):
        return None
    texts = _texts(found)
    return Platform(
        os=texts.get("os", ""), architecture=texts.get("architecture", ""), variant=texts.get("variant", "")
    )


def is_for(platform: Platform, wanted: Platform) -> bool:
    """Whether two platforms have the same OS and architecture, whatever their variants."""
    return (platform.os, platform.architecture) == (wanted.os, wanted.architecture)


def choose_manifest(index: ManifestIndex, wanted: Platform, subject: str) -> Descriptor:
    """The manifest for a platform: the same variant, else one that names none, else the first; ValueError if none.

    An entry without a platform fits all, after the entries for ours.
    """
    matching = [entry for entry in index.manifests if entry.platform and is_for(entry.platform, wanted)]
    for variant in (wanted.variant, ""):
        for entry in matching:
            if entry.platform and entry.platform.variant == variant:
                return entry
    universal = [entry for entry in index.manifests if entry.platform is None]
    if matching or universal:
        return (matching or universal)[0]
    available = sorted({str(entry.platform) for entry in index.manifests if entry.platform})
    raise ValueError(f"{subject}: there is no image for {wanted}, only for {', '.join(available) or 'nobody'}")


def read_config(data: bytes, subject: str) -> ImageConfig:
    """Parse the config of an image; ValueError if it has no layers."""
    document = _object(data, subject)
    rootfs = document.get("rootfs")
    diff_ids = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    if not isinstance(diff_ids, list) or not all(
        isinstance(diff_id, str) and is_digest(diff_id) for diff_id in diff_ids
    ):
        raise ValueError(f"{subject}: key rootfs.diff_ids: it is not a list of digests")
    inner = document.get("config")
    fields = inner if isinstance(inner, dict) else {}
    return ImageConfig(
        user=_text(fields, "User", subject),
        env=_list(fields, "Env", subject),
        entrypoint=_list(fields, "Entrypoint", subject),
        cmd=_list(fields, "Cmd", subject),
        working_dir=_text(fields, "WorkingDir", subject),
        volumes=_keys(fields, "Volumes", subject),
        stop_signal=_text(fields, "StopSignal", subject),
        labels=_texts(fields.get("Labels")),
        exposed_ports=_keys(fields, "ExposedPorts", subject),
        architecture=str(document.get("architecture") or ""),
        os=str(document.get("os") or ""),
        created=str(document.get("created") or ""),
        diff_ids=tuple(diff_ids),
    )


def chain_ids(diff_ids: Iterable[str]) -> tuple[str, ...]:
    """The chain ids of layers: each stands for a layer with all layers below it."""
    chain: list[str] = []
    for diff_id in diff_ids:
        chain.append(digest_of(f"{chain[-1]} {diff_id}".encode()) if chain else diff_id)
    return tuple(chain)


def short(digest: str) -> str:
    """The first twelve hex digits of a digest, for people."""
    return encoded(digest)[:12]


def _object(data: bytes, subject: str) -> dict[str, Any]:
    if len(data) > MAX_BYTES:
        raise ValueError(f"{subject}: it is larger than {MAX_BYTES} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError(f"{subject}: it is not JSON") from None
    if not isinstance(found, dict):
        raise ValueError(f"{subject}: it is not a JSON object")
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{subject}: there is half a character in a text of it") from None
    return found


def _text(fields: Mapping[str, Any], key: str, subject: str) -> str:
    value = fields.get(key) or ""
    if not isinstance(value, str):
        raise ValueError(f"{subject}: key config.{key}: it is not text")
    return value


def _list(fields: Mapping[str, Any], key: str, subject: str) -> tuple[str, ...]:
    value = fields.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{subject}: key config.{key}: it is not a list of texts")
    return tuple(value)


def _keys(fields: Mapping[str, Any], key: str, subject: str) -> tuple[str, ...]:
    value = fields.get(key) or {}
    if not isinstance(value, dict):
        raise ValueError(f"{subject}: key config.{key}: it is not a group of keys")
    return tuple(value)


def _texts(found: object) -> Mapping[str, str]:
    """The string values of an object; other values are left out."""
    if not isinstance(found, dict):
        return MappingProxyType({})
    return MappingProxyType({key: value for key, value in found.items() if isinstance(value, str)})
