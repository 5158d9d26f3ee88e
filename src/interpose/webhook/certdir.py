"""Key and certificate in a directory, for a webhook that runs outside of the cluster or reads a mounted one."""

import os
from pathlib import Path

from interpose.webhook.bootstrap import AUTHORITY, CERTIFICATE, KEY
from interpose.webhook.issuing import Issued


class DirectoryPlace:
    """Three files. Each is replaced as a whole; a webhook that reads in between finds a pair that does not match, and
    keeps the one it has."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    @property
    def title(self) -> str:
        """For people."""
        return f"directory {self._directory}"

    async def read(self) -> Issued | None:
        """What is there; None unless all three are."""
        found = []
        for name in (AUTHORITY, CERTIFICATE, KEY):
            try:
                found.append((self._directory / name).read_bytes())
            except FileNotFoundError:
                return None
        return Issued(authority=found[0], certificate=found[1], key=found[2])

    async def write(self, issued: Issued) -> None:
        """The key is nobody else's to read."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, pem, mode in (
            (KEY, issued.key, 0o600),
            (CERTIFICATE, issued.certificate, 0o644),
            (AUTHORITY, issued.authority, 0o644),
        ):
            self._replace(self._directory / name, pem, mode)

    def _replace(self, path: Path, data: bytes, mode: int) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
