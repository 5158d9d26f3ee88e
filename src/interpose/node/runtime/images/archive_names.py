"""Names of images in archives. Pure.

Tools write names in different keys: `RepoTags` of Docker, and two annotations, of which the second may be only a tag.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from interpose.node.runtime.images.registry.reference import has_explicit_tag, parse_reference

_FULL_NAME: Final = "io.containerd.image.name"
_REF: Final = "org.opencontainers.image.ref.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerEntry:
    """An image in Docker's manifest.json: names of files, layers lowest first."""

    config: str
    layers: tuple[str, ...]
    tags: tuple[str, ...]


def read_docker_manifest(data: bytes) -> tuple[DockerEntry, ...]:
    """Parse Docker's manifest.json; ValueError names the key."""
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("manifest.json: it is not JSON") from None
    if not isinstance(found, list):
        raise ValueError("manifest.json: it is not a list of images")
    return tuple(_docker_entry(entry, f"manifest.json: key [{at}]") for at, entry in enumerate(found))


def _docker_entry(found: object, subject: str) -> DockerEntry:
    fields: Mapping[str, Any] = found if isinstance(found, dict) else {}
    config, layers, tags = fields.get("Config"), fields.get("Layers") or [], fields.get("RepoTags") or []
    if not isinstance(config, str) or not config:
        raise ValueError(f"{subject}.Config: it names no file")
    if not isinstance(layers, list) or not all(isinstance(layer, str) and layer for layer in layers):
        raise ValueError(f"{subject}.Layers: it is not a list of files")
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError(f"{subject}.RepoTags: it is not a list of names")
    return DockerEntry(config=config, layers=tuple(layers), tags=tuple(full_name(tag) for tag in tags))


def full_name(name: str) -> str:
    """The full form of a name, as in the store; ValueError if it is not a name."""
    return str(parse_reference(name))


def tag_of(name: str) -> str:
    """The full form of a name with a tag; ValueError if it is not a name, or has a digest instead."""
    reference = parse_reference(name)
    if reference.digest:
        raise ValueError(f"image reference {name!r}: a digest cannot be given as a name")
    return str(reference)


def assign_names(names: Sequence[tuple[str, ...]], requested: str) -> list[tuple[str, ...]]:
    """Additional names of images: one image gets the requested name as it is; several images, and one that has only a
    tag, get its repository with their own tags. ValueError if two would have the same name."""
    tag, repository = tag_of(requested), parse_reference(requested).repository
    if len(names) == 1:
        own = tuple(name for name in names[0] if parse_reference(name).repository == repository)
        return [own if own and not has_explicit_tag(requested) else (tag,)]
    if has_explicit_tag(requested):
        raise ValueError(f"name {requested!r}: there are {len(names)} images, and only one of them can have this tag")
    if not all(names):
        raise ValueError(f"name {requested!r}: there are {len(names)} images, and not all of them have a tag")
    renamed = [tuple(dict.fromkeys(f"{repository}:{parse_reference(name).tag}" for name in own)) for own in names]
    duplicates = [name for name, count in Counter(name for own in renamed for name in own).items() if count > 1]
    if duplicates:
        raise ValueError(f"name {requested!r}: more than one image would be {duplicates[0]}")
    return renamed


def annotated_names(annotations: Mapping[str, str], base: str) -> tuple[str, ...]:
    """The names in the annotations of a manifest. A tag alone belongs to `base`; without a base it is ignored."""
    annotated = annotations.get(_FULL_NAME)
    if annotated:
        return (full_name(annotated),)
    name = annotations.get(_REF)
    if not name:
        return ()
    if ":" in name or "/" in name or "@" in name:
        return (full_name(name),)
    return (full_name(f"{base}:{name}"),) if base else ()


def tag_annotations(tag: str) -> dict[str, str]:
    """The annotations of a name with a tag, as tools write them."""
    return {_FULL_NAME: tag, _REF: parse_reference(tag).tag}


def with_digest(names: tuple[str, ...], digest: str) -> tuple[str, ...]:
    """The repositories of `names`, each with a digest instead of a tag."""
    repositories = dict.fromkeys(parse_reference(name).repository for name in names)
    return tuple(f"{repository}@{digest}" for repository in repositories)
