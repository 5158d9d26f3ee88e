"""The settings file of registries, read from disk."""

from pathlib import Path

from interpose.config.document import read_document
from interpose.localruntime.images.registries import Registries, read_registries


def read_registries_file(path: Path | str) -> Registries:
    """What the file says; ConfigError with all that is wrong in it."""
    return read_registries(read_document(str(path)), f"file {path}")
