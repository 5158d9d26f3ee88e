"""The settings file of registries, read from disk."""

from pathlib import Path

from interpose.config.documents.yaml import read_document
from interpose.node.runtime.images.registry.endpoints import Registries, read_registries


def read_registries_file(path: Path | str) -> Registries:
    """What the file says; ConfigError with all that is wrong in it."""
    return read_registries(read_document(str(path)), f"file {path}")
