"""Images, their layers, credentials for a pull, and its progress, as values. Pure."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

from interpose.node.runtime.images.registry.reference import parse_reference


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """The config of an image: defaults for containers, and its layers."""

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
        """All names of the image: tags first, then digests."""
        return (*self.repo_tags, *self.repo_digests)

    def matching_tag(self, *texts: str) -> str:
        """The tag that one of these texts names, the last text first; else the first tag. Empty without a tag."""
        for text in reversed(texts):
            with suppress(ValueError):
                if (name := str(parse_reference(text))) in self.repo_tags:
                    return name
        return self.repo_tags[0] if self.repo_tags else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackLimits:
    """Limits for a layer. The largest layers in use have some GiB and some 100000 files."""

    size: int = 64 << 30  # bytes of the tar file
    entries: int = 4_000_000  # of the tar file; and files and folders made of them
    file: int = 16 << 40  # bytes of a file with its holes, as file systems have it


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackResult:
    """The result of unpacking a layer."""

    diff_id: str
    size: int  # bytes on disk, about
    inodes: int
    skipped: int = 0  # devices that may not be made here


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """Credentials for a registry, with the fields of CRI. They are never printed."""

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    auth: str = field(default="", repr=False)  # base64 of user:password
    server_address: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)  # exchanged for tokens
    registry_token: str = field(default="", repr=False)  # sent as it is


class PullPhase(StrEnum):
    """The state of a part of an image during a pull."""

    WAITING = "waiting"
    DOWNLOADING = "downloading"
    UNPACKING = "unpacking"
    DONE = "done"
    EXISTS = "exists"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullProgress:
    """The progress of a part of an image (a layer). `done` and `total` in bytes; `total` is 0 if unknown."""

    part: str
    phase: PullPhase
    done: int = 0
    total: int = 0


Progress: TypeAlias = Callable[[PullProgress], None]


def ignore_progress(_progress: PullProgress) -> None:
    """A callback for callers without a display."""


class PullError(Exception):
    """A pull failed. The text is for people and for the kubelet, which reads its beginning.

    `not_found`: the registry answered that there is no such image.
    """

    def __init__(self, message: str, *, not_found: bool = False) -> None:
        super().__init__(message)
        self.not_found = not_found
