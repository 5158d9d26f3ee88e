"""What images in archives are called. Pure.

Tools write names in different places: `RepoTags` of Docker, and two annotations, of which the second may be a mere tag.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from interpose.node.runtime.images.registry.reference import parse_reference, says_tag

_WHOLE: Final = "io.containerd.image.name"
_REF: Final = "org.opencontainers.image.ref.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerEntry:
    """One image of Docker's manifest.json: names of files, layers lowest first."""

    config: str
    layers: tuple[str, ...]
    tags: tuple[str, ...]


def read_docker_manifest(data: bytes) -> tuple[DockerEntry, ...]:
    """Docker's manifest.json; ValueError names the key."""
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("manifest.json: it is not JSON") from None
    if not isinstance(found, list):
        raise ValueError("manifest.json: it is not a list of images")
    return tuple(_docker_entry(one, f"manifest.json: key [{at}]") for at, one in enumerate(found))


def _docker_entry(found: object, what: str) -> DockerEntry:
    given: Mapping[str, Any] = found if isinstance(found, dict) else {}
    config, layers, tags = given.get("Config"), given.get("Layers") or [], given.get("RepoTags") or []
    if not isinstance(config, str) or not config:
        raise ValueError(f"{what}.Config: it names no file")
    if not isinstance(layers, list) or not all(isinstance(one, str) and one for one in layers):
        raise ValueError(f"{what}.Layers: it is not a list of files")
    if not isinstance(tags, list) or not all(isinstance(one, str) for one in tags):
        raise ValueError(f"{what}.RepoTags: it is not a list of names")
    return DockerEntry(config=config, layers=tuple(layers), tags=tuple(written_out(tag) for tag in tags))


def written_out(name: str) -> str:
    """A name as the store has it; ValueError if it is none."""
    return str(parse_reference(name))


def tag_of(name: str) -> str:
    """A name with a tag, as the store has it; ValueError if it is none, or has a digest instead."""
    reference = parse_reference(name)
    if reference.digest:
        raise ValueError(f"image reference {name!r}: a digest cannot be given as a name")
    return str(reference)


def given_names(names: Sequence[tuple[str, ...]], given: str) -> list[tuple[str, ...]]:
    """What images with these names are called besides when somebody says how: one image by the name as it is given;
    several, and one that has only a tag, by their own tags. ValueError if two would have the same name."""
    tag, repository = tag_of(given), parse_reference(given).repository
    if len(names) == 1:
        own = tuple(name for name in names[0] if parse_reference(name).repository == repository)
        return [own if own and not says_tag(given) else (tag,)]
    if says_tag(given):
        raise ValueError(f"name {given!r}: there are {len(names)} images, and only one of them can have this tag")
    if not all(names):
        raise ValueError(f"name {given!r}: there are {len(names)} images, and not all of them have a tag")
    renamed = [tuple(dict.fromkeys(f"{repository}:{parse_reference(one).tag}" for one in own)) for own in names]
    twice = [one for one, count in Counter(one for own in renamed for one in own).items() if count > 1]
    if twice:
        raise ValueError(f"name {given!r}: more than one image would be {twice[0]}")
    return renamed


def annotated_names(annotations: Mapping[str, str], base: str) -> tuple[str, ...]:
    """The names that annotations of a manifest say. A mere tag is one of `base`; without a base it is nothing."""
    whole = annotations.get(_WHOLE)
    if whole:
        return (written_out(whole),)
    name = annotations.get(_REF)
    if not name:
        return ()
    if ":" in name or "/" in name or "@" in name:
        return (written_out(name),)
    return (written_out(f"{base}:{name}"),) if base else ()


def tag_annotations(tag: str) -> dict[str, str]:
    """Annotations that say a name with a tag, as tools write them."""
    return {_WHOLE: tag, _REF: parse_reference(tag).tag}


def with_digest(names: tuple[str, ...], digest: str) -> tuple[str, ...]:
    """The same repositories, each with a digest instead of a tag."""
    repositories = dict.fromkeys(parse_reference(name).repository for name in names)
    return tuple(f"{repository}@{digest}" for repository in repositories)
