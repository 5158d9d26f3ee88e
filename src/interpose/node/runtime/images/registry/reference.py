"""Image references in full form, as registries need them. Pure.

    busybox                     docker.io/library/busybox:latest
    team/app:1.2                docker.io/team/app:1.2
    localhost/app               localhost/app:latest
    host:5000/a/b@sha256:...    host:5000/a/b@sha256:...

Invariant: the text of a reference reads as the same reference. Errors name the text.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

DEFAULT_DOMAIN: Final = "docker.io"
_LIBRARY: Final = "library"
_LATEST: Final = "latest"
_OLD_DOMAIN: Final = "index.docker.io"
_MAX_NAME: Final = 255
_MAX_SHOWN: Final = 300

_LABEL: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:.]+\])(?::[0-9]+)?")
_PART: Final = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_HEX: Final = re.compile(r"[0-9a-f]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReference:
    """An image reference: registry, path, and tag or digest."""

    domain: str
    path: str
    tag: str = ""
    digest: str = ""

    @property
    def repository(self) -> str:
        """The repository: domain and path."""
        return f"{self.domain}/{self.path}"

    @property
    def wanted(self) -> str:
        """The digest if there is one, else the tag: the name of the manifest in a request."""
        return self.digest or self.tag

    def __str__(self) -> str:
        return f"{self.repository}@{self.digest}" if self.digest else f"{self.repository}:{self.tag}"


def parse_reference(text: str) -> ImageReference:
    """Parse a reference in short or full form; ValueError for a bad one. With tag and digest, the digest counts."""
    rest, at, digest = text.partition("@")
    if at and not is_digest(digest):
        raise _reference_error(text, f"the digest {digest!r} is not sha256: and 64 hex digits in lower case")
    head, colon, tag = rest.rpartition(":")
    if colon and "/" not in tag:
        rest = head
        if not _TAG.fullmatch(tag):
            raise _reference_error(
                text, f"the tag {tag!r} must be at most 128 letters, digits and _.- and begin with none of .-"
            )
    else:
        tag = ""
    domain, path = _split_domain(rest)
    _check_path(text, domain, path)
    if digest:
        return ImageReference(domain=domain, path=path, digest=digest)
    return ImageReference(domain=domain, path=path, tag=tag or _LATEST)


def has_explicit_tag(text: str) -> bool:
    """Whether a reference has an explicit tag, not the default `latest`."""
    return ":" in text.partition("@")[0].rpartition("/")[2]


def _split_domain(name: str) -> tuple[str, str]:
    """A first part with a dot or a port in it is a registry, and so is localhost; else the default one is meant."""
    head, slash, path = name.partition("/")
    if slash and ("." in head or ":" in head or head == "localhost" or head.lower() != head):
        domain = DEFAULT_DOMAIN if head == _OLD_DOMAIN else head
    else:
        domain, path = DEFAULT_DOMAIN, name
    if domain == DEFAULT_DOMAIN and "/" not in path:
        path = f"{_LIBRARY}/{path}"
    return domain, path


def _check_path(text: str, domain: str, path: str) -> None:
    if not _DOMAIN.fullmatch(domain):
        raise _reference_error(text, f"{domain!r} is not a name of a registry")
    for part in path.removeprefix(f"{_LIBRARY}/").split("/"):
        if not _PART.fullmatch(part):
            problem = "there is no name" if not part else f"{part!r} is not made of lower-case letters, digits and ._-"
            raise _reference_error(text, problem)
    if len(domain) + 1 + len(path) > _MAX_NAME:
        raise _reference_error(text, f"it is longer than {_MAX_NAME} characters")


def _reference_error(text: str, problem: str) -> ValueError:
    shown = text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."
    return ValueError(f"image reference {shown!r}: {problem}")


def is_digest(text: str) -> bool:
    """Whether a text is a sha256 digest in lower case."""
    return _DIGEST.fullmatch(text) is not None


def encoded(digest: str) -> str:
    """The hex digits of a digest, as names of files."""
    return digest.removeprefix("sha256:")


def find_id(text: str, ids: Iterable[str]) -> str | None:
    """The id with this prefix, None without one; ValueError for a prefix of several ids."""
    prefix = encoded(text)
    if not _HEX.fullmatch(prefix):
        return None
    found = [image_id for image_id in ids if encoded(image_id).startswith(prefix)]
    if len(found) > 1:
        raise ValueError(f"image id {text!r}: {len(found)} images begin with it")
    return found[0] if found else None
