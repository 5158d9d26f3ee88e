"""Which build of the data path this is: compiled to machine code, or the same modules as plain Python."""

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec


def build() -> str:
    """`compiled` or `pure`, by the module of the frame loop, which is not loaded for it."""
    spec = find_spec("interpose.net.h2.connection")
    compiled = spec is not None and (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES))
    return "compiled" if compiled else "pure"
