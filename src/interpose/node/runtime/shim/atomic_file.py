"""Atomic replacement of small files, for the shim and the plain executor, which import the standard library alone."""

import os


def replace_file(path: str, text: str, *, sync: bool = False) -> None:
    """Replace a file in one step; with `sync` its content is on the disk first. OSError leaves the old file."""
    temporary = f"{path}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        data = text.encode()
        while data:  # a disk that becomes full takes a part of it first
            data = data[os.write(fd, data) :]
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, path)  # noqa: PTH104
