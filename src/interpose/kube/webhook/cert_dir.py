"""Key and certificate in a directory, for a webhook that runs outside of the cluster or reads a mounted one."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interpose.host.atomic_file import replace_at
from interpose.kube.webhook.bootstrap import AUTHORITY, CERTIFICATE, KEY, StoredCertificate
from interpose.kube.webhook.issue import Issued

_NAMES = (AUTHORITY, CERTIFICATE, KEY)
# Directory for what is not in use yet.
_NEXT = ".next"


class DirectoryCertificateStore:
    """Three files. Each is replaced as a whole; a webhook that reads in between finds a pair that does not match, and
    keeps the one it has. Who writes has the directory for itself, so what an earlier run left unfinished can go."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    @property
    def title(self) -> str:
        """The directory, for messages."""
        return f"directory {self._directory}"

    async def read(self) -> StoredCertificate:
        """The certificates in the directory, in use and pending."""
        return StoredCertificate(
            current=_read(self._directory),
            pending=_read(self._directory / _NEXT),
            empty=not any((self._directory / name).exists() for name in _NAMES),
        )

    async def stage(self, issued: Issued) -> None:
        """In a directory of its own."""
        with _lock_directory(self._directory):
            (self._directory / _NEXT).mkdir(mode=0o700, exist_ok=True)
            _write(self._directory / _NEXT, issued)

    async def write(self, issued: Issued) -> None:
        """Replace all three files and remove the pending ones."""
        with _lock_directory(self._directory):
            _write(self._directory, issued)
            if (self._directory / _NEXT).is_dir():
                for file in (self._directory / _NEXT).iterdir():
                    file.unlink()
                (self._directory / _NEXT).rmdir()


@contextmanager
def _lock_directory(directory: Path) -> Iterator[None]:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(directory: Path) -> Issued | None:
    """None unless all three are there."""
    found = []
    for name in _NAMES:
        try:
            found.append((directory / name).read_bytes())
        except FileNotFoundError:
            return None
    return Issued(authority=found[0], certificate=found[1], key=found[2])


def _write(directory: Path, issued: Issued) -> None:
    """The key is nobody else's to read."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name, pem, mode in (
            (KEY, issued.key, 0o600),
            (CERTIFICATE, issued.certificate, 0o644),
            (AUTHORITY, issued.authority, 0o644),
        ):
            # Always under the same name: what is there is of a run that was killed.
            replace_at(handle, name, pem, temporary=f".{name}.tmp", mode=mode)
    finally:
        os.close(handle)
