"""Names of images. Pure."""

import re
from typing import Final

_BAD: Final = re.compile(r"[\s\x00-\x1f\x7f]")


def with_tag(image: str) -> str:
    """The name with `latest` if it says neither tag nor digest. ValueError for what can be no name."""
    if not image or _BAD.search(image) or image.startswith((":", "@", "/")) or image.endswith((":", "@", "/")):
        raise ValueError(f"{image!r} is not the name of an image")
    if "@" in image or ":" in image.rpartition("/")[2]:
        return image
    return f"{image}:latest"
