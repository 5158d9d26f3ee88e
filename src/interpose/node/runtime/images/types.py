"""What is known of images and their layers, of those who may pull them, and of a pull under way. Pure."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

from interpose.node.runtime.images.registry.reference import parse_reference


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """What an image says about the containers made of it."""

    user: str = ""
    env: tuple[str, ...] = field(default=(), repr=False)  # NAME=value; values may be secret
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    working_dir: str = ""
    volumes: tuple[str, ...] = ()
    stop_signal: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    exposed_ports: tuple[str, ...] = ()
    architecture: str = ""
    os: str = ""
    created: str = ""
    diff_ids: tuple[str, ...] = ()  # digests of the layers' tar files, lowest first


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """An image in the store. `id` is the digest of its config, `chain` names its layers on disk, lowest first."""

    id: str
    repo_tags: tuple[str, ...] = ()
    repo_digests: tuple[str, ...] = ()
    size: int  # bytes of what was pulled or imported, never 0
    config: ImageConfig
    chain: tuple[str, ...] = ()
    pinned: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Tags first, then digests."""
        return (*self.repo_tags, *self.repo_digests)

    def called(self, *texts: str) -> str:
        """Its name as one of these texts says it, the last one first; else its first tag. Empty if it has no tag."""
        for text in reversed(texts):
            with suppress(ValueError):
                if (name := str(parse_reference(text))) in self.repo_tags:
                    return name
        return self.repo_tags[0] if self.repo_tags else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackLimits:
    """What one layer may cost. The largest layers in use have some GiB and some 100000 files."""

    size: int = 64 << 30  # bytes of the tar file
    entries: int = 4_000_000  # of the tar file; and files and folders made of them
    file: int = 16 << 40  # bytes of a file with its holes, as file systems have it


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackResult:
    """What became of a layer."""

    diff_id: str
    size: int  # bytes on disk, about
    inodes: int
    skipped: int = 0  # devices that may not be made here


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """What somebody shows to a registry, as CRI has it. Nothing of it is ever printed."""

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    auth: str = field(default="", repr=False)  # base64 of user:password
    server_address: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)  # exchanged for tokens
    registry_token: str = field(default="", repr=False)  # shown as it is


class PullPhase(StrEnum):
    """What happens to a part of an image."""

    WAITING = "waiting"
    DOWNLOADING = "downloading"
    UNPACKING = "unpacking"
    DONE = "done"
    EXISTS = "exists"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullProgress:
    """News of one part of an image. Bytes; `total` is 0 where nobody knows."""

    what: str
    phase: PullPhase
    done: int = 0
    total: int = 0


Progress: TypeAlias = Callable[[PullProgress], None]


def silent(_news: PullProgress) -> None:
    """For those who do not want to know."""


class PullError(Exception):
    """An image cannot be had from its registry. The text is for people and for the kubelet, which reads its beginning.

    `not_found`: the registry says that there is none.
    """

    def __init__(self, message: str, *, not_found: bool = False) -> None:
        super().__init__(message)
        self.not_found = not_found
