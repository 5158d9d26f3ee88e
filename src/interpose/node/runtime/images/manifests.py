"""Manifests, indexes and configs of images, of OCI and of Docker (schema 2). Pure: bytes in, values out.

Errors are ValueErrors that name the blob and the key. What is not needed is not looked at.
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
MOST_BYTES: Final = 4 << 20
_MOST_LAYERS: Final = 1000
_MOST_SIZE: Final = 1 << 50  # bytes of a blob; all layers together have to fit in what CRI has for a size
_MOST_MANIFESTS: Final = 10_000
# Kinds of layers that cannot be unpacked, by a word in their media type.
_NO_LAYERS: Final = ("encrypted", "in-toto", "cosign")

# What machines call themselves, in the words of images. The second is the variant that is understood.
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
    """What an image is for."""

    os: str
    architecture: str
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """A blob that another one names."""

    media_type: str
    digest: str
    size: int
    platform: Platform | None = None
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageManifest:
    """One image: its config and its layers, lowest first."""

    config: Descriptor
    layers: tuple[Descriptor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestIndex:
    """Several images, for several platforms or with several names."""

    manifests: tuple[Descriptor, ...]


def digest_of(data: bytes) -> str:
    """The digest of some bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def linux_platform(machine: str) -> Platform:
    """The platform of a machine, by the word that `uname -m` has for it."""
    architecture, variant = _ARCHITECTURES.get(machine, (machine, ""))
    return Platform(os="linux", architecture=architecture, variant=variant)


def read_manifest(data: bytes, what: str) -> ImageManifest | ManifestIndex:
    """A manifest or an index, whatever the bytes say they are; `what` begins each error."""
    document = _object(data, what)
    kind = document.get("mediaType", "")
    if document.get("schemaVersion") == 1:
        raise ValueError(f"{what}: it is a manifest of schema 1, which no tool makes any more: push the image again")
    if kind in (OCI_INDEX, DOCKER_LIST) or (not kind and "manifests" in document):
        return _index(document, what)
    if kind in (OCI_MANIFEST, DOCKER_MANIFEST) or (not kind and "layers" in document):
        return _manifest(document, what)
    raise ValueError(f"{what}: key mediaType: {kind!r} is not a manifest of an image")


def _index(document: Mapping[str, Any], what: str) -> ManifestIndex:
    entries = document.get("manifests")
    if not isinstance(entries, list) or len(entries) > _MOST_MANIFESTS:
        raise ValueError(f"{what}: key manifests: it is not a list of at most {_MOST_MANIFESTS} manifests")
    return ManifestIndex(manifests=tuple(_descriptor(one, what, f"manifests[{at}]") for at, one in enumerate(entries)))


def _manifest(document: Mapping[str, Any], what: str) -> ImageManifest:
    config = _descriptor(document.get("config"), what, "config")
    entries = document.get("layers")
    if not isinstance(entries, list) or len(entries) > _MOST_LAYERS:
        raise ValueError(f"{what}: key layers: it is not a list of at most {_MOST_LAYERS} layers")
    layers = tuple(_descriptor(one, what, f"layers[{at}]") for at, one in enumerate(entries))
    for at, layer in enumerate(layers):
        if any(word in layer.media_type for word in _NO_LAYERS):
            raise ValueError(f"{what}: key layers[{at}].mediaType: {layer.media_type!r} is not a layer of files")
    return ImageManifest(config=config, layers=layers)


def _descriptor(found: object, what: str, key: str) -> Descriptor:
    if not isinstance(found, dict):
        raise ValueError(f"{what}: key {key}: it is not a descriptor with mediaType, digest and size")
    digest, size = found.get("digest"), found.get("size")
    if not isinstance(digest, str) or not is_digest(digest):
        raise ValueError(f"{what}: key {key}.digest: {digest!r:.100} is not sha256: and 64 hex digits")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _MOST_SIZE:
        raise ValueError(f"{what}: key {key}.size: {size!r:.100} is not a number of bytes")
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
    """Whether programs for one run on the other, variants aside."""
    return (platform.os, platform.architecture) == (wanted.os, wanted.architecture)


def choose(index: ManifestIndex, wanted: Platform, what: str) -> Descriptor:
    """The manifest for a platform: the same variant, else one that names none, else the first; ValueError if none.

    An entry without platform is for everybody, after those that name ours.
    """
    fitting = [one for one in index.manifests if one.platform and is_for(one.platform, wanted)]
    for variant in (wanted.variant, ""):
        for one in fitting:
            if one.platform and one.platform.variant == variant:
                return one
    anybodys = [one for one in index.manifests if one.platform is None]
    if fitting or anybodys:
        return (fitting or anybodys)[0]
    there = sorted({str(one.platform) for one in index.manifests if one.platform})
    raise ValueError(f"{what}: there is no image for {wanted}, only for {', '.join(there) or 'nobody'}")


def read_config(data: bytes, what: str) -> ImageConfig:
    """The config of an image; what is no image of layers is refused."""
    document = _object(data, what)
    rootfs = document.get("rootfs")
    diff_ids = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    if not isinstance(diff_ids, list) or not all(isinstance(one, str) and is_digest(one) for one in diff_ids):
        raise ValueError(f"{what}: key rootfs.diff_ids: it is not a list of digests")
    inner = document.get("config")
    given = inner if isinstance(inner, dict) else {}
    return ImageConfig(
        user=_text(given, "User", what),
        env=_list(given, "Env", what),
        entrypoint=_list(given, "Entrypoint", what),
        cmd=_list(given, "Cmd", what),
        working_dir=_text(given, "WorkingDir", what),
        volumes=_keys(given, "Volumes", what),
        stop_signal=_text(given, "StopSignal", what),
        labels=_texts(given.get("Labels")),
        exposed_ports=_keys(given, "ExposedPorts", what),
        architecture=str(document.get("architecture") or ""),
        os=str(document.get("os") or ""),
        created=str(document.get("created") or ""),
        diff_ids=tuple(diff_ids),
    )


def chain_ids(diff_ids: Iterable[str]) -> tuple[str, ...]:
    """Names of layers that stand for all that is below them, too."""
    chain: list[str] = []
    for diff_id in diff_ids:
        chain.append(digest_of(f"{chain[-1]} {diff_id}".encode()) if chain else diff_id)
    return tuple(chain)


def short(digest: str) -> str:
    """A digest as people like to see it."""
    return encoded(digest)[:12]


def _object(data: bytes, what: str) -> dict[str, Any]:
    if len(data) > MOST_BYTES:
        raise ValueError(f"{what}: it is larger than {MOST_BYTES} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError(f"{what}: it is not JSON") from None
    if not isinstance(found, dict):
        raise ValueError(f"{what}: it is not a JSON object")
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what}: there is half a character in a text of it") from None
    return found


def _text(given: Mapping[str, Any], key: str, what: str) -> str:
    value = given.get(key) or ""
    if not isinstance(value, str):
        raise ValueError(f"{what}: key config.{key}: it is not text")
    return value


def _list(given: Mapping[str, Any], key: str, what: str) -> tuple[str, ...]:
    value = given.get(key) or []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{what}: key config.{key}: it is not a list of texts")
    return tuple(value)


def _keys(given: Mapping[str, Any], key: str, what: str) -> tuple[str, ...]:
    value = given.get(key) or {}
    if not isinstance(value, dict):
        raise ValueError(f"{what}: key config.{key}: it is not a group of keys")
    return tuple(value)


def _texts(found: object) -> Mapping[str, str]:
    """The texts of a group of keys; the rest is nothing to us."""
    if not isinstance(found, dict):
        return MappingProxyType({})
    return MappingProxyType({key: value for key, value in found.items() if isinstance(value, str)})
