"""What a browser runs: the files beside this module, put together.

Each script is a part of one program and sees the parts before it; the browser gets them as one element, so that the
page needs to allow one script and no other.
"""

from dataclasses import dataclass
from importlib import resources
from typing import Final

# In this order. A part uses only what stands above it.
PARTS: Final = ("dom", "data", "yaml", "filter", "tree", "list", "lanes", "timeline", "latency", "detail", "main")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Texts of the page."""

    template: str
    style: str
    script: str


def load_resources() -> Resources:
    """Read them from the package."""
    folder = resources.files(__package__)
    parts = "\n".join((folder / "parts" / f"{name}.js").read_text("utf-8") for name in PARTS)
    return Resources(
        template=(folder / "page.html").read_text("utf-8"),
        style=(folder / "page.css").read_text("utf-8"),
        script=f'(() => {{\n"use strict";\n{parts}}})();\n',
    )
