"""The images of a fake node: references, pulls with credentials, lookups by name, digest or id.

Pure. Ids and digests are derived from the full name, so the same image has the same id on every run and every node.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.status import Code, RpcError


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a registry wants to see before it gives an image away."""

    username: str
    password: str

    def accepts(self, auth: cri.AuthConfig) -> bool:
        """Whether the caller showed them, as two fields or as one encoded word."""
        encoded = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        return (auth.username, auth.password) == (self.username, self.password) or auth.auth == encoded


def full_name(reference: str) -> str:
    """The reference with registry and tag written out; ids and digests keep their form."""
    if reference.startswith("sha256:"):
        return reference
    head, slash, _ = reference.partition("/")
    if not slash:
        reference = f"docker.io/library/{reference}"
    elif not ("." in head or ":" in head or head == "localhost"):
        reference = f"docker.io/{reference}"
    if "@" in reference or ":" in reference.rsplit("/", 1)[-1]:
        return reference
    return f"{reference}:latest"


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _make_image(name: str) -> cri.Image:
    repository = name.split("@")[0] if "@" in name else name.rsplit(":", 1)[0]
    digest = name.split("@")[1] if "@" in name else _digest(f"manifest {name}")
    return cri.Image(
        id=_digest(f"config {digest}"),
        repo_tags=[] if "@" in name else [name],
        repo_digests=[f"{repository}@{digest}"],
        size=1_000_000 + int(digest[-5:], 16),
        uid=cri.Int64Value(value=0),
        spec=cri.ImageSpec(image=name),
    )


class ImageStore:
    """The images that were pulled. `credentials` lists the registries that ask for a password."""

    def __init__(self, preloaded: Iterable[str] = (), credentials: Mapping[str, Credentials] | None = None) -> None:
        self.images: dict[str, cri.Image] = {}
        self._credentials = dict(credentials or {})
        for reference in preloaded:
            self._add(full_name(reference))

    def find(self, reference: str) -> cri.Image | None:
        """The image with this name, digest, id, or unique start of an id."""
        if not reference:
            return None
        name = full_name(reference)
        for image in self.images.values():
            if name == image.id or name in image.repo_tags or name in image.repo_digests:
                return image
        prefix = reference if reference.startswith("sha256:") else f"sha256:{reference}"
        matches = [image for image_id, image in self.images.items() if image_id.startswith(prefix)]
        return matches[0] if len(matches) == 1 else None

    def list(self, wanted: str = "") -> list[cri.Image]:
        """All images, or only the one asked for."""
        if not wanted:
            return [*self.images.values()]
        found = self.find(wanted)
        return [] if found is None else [found]

    def pull(self, reference: str, auth: cri.AuthConfig) -> cri.Image:
        """Get an image from its registry; a pull of a present image checks the credentials again."""
        if not reference or reference.startswith("sha256:"):
            raise RpcError(Code.UNKNOWN, f'failed to parse image reference "{reference}"')
        name = full_name(reference)
        wanted = self._credentials.get(name.split("/", 1)[0])
        if wanted is not None and not wanted.accepts(auth):
            raise RpcError(
                Code.UNKNOWN,
                f'failed to pull and unpack image "{name}": pull access denied, authorization failed',
            )
        return self._add(name)

    def remove(self, reference: str) -> None:
        """Remove an image under all its names; nothing happens if it is absent."""
        image = self.find(reference)
        if image is not None:
            del self.images[image.id]

    def _add(self, name: str) -> cri.Image:
        image = _make_image(name)
        known = self.images.setdefault(image.id, image)
        if known is not image:
            known.repo_tags.extend(tag for tag in image.repo_tags if tag not in known.repo_tags)
        return known
