"""Names of images. Pure."""

import re
from typing import Final

_BAD: Final = re.compile(r"[\s\x00-\x1f\x7f]")


def with_tag(image: str) -> str:
    """The name with `latest` if it says neither tag nor digest. ValueError for what can be no name."""
    if not image or _BAD.search(image) or image.startswith((":", "@", "/")) or image.endswith((":", "@", "/")):
        raise ValueError(f"{image!r} is not the name of an image")
    repository = _repository(image)
    if repository != repository.lower():
        raise ValueError(f"{image!r}: repository {repository!r} must be lower-case")
    if "@" in image or ":" in image.rpartition("/")[2]:
        return image
    return f"{image}:latest"


def _repository(image: str) -> str:
    """Without registry, tag and digest. The first part is a registry if it looks like a host or has capitals."""
    path = image.partition("@")[0]
    first, _, rest = path.partition("/")
    if rest and (not {".", ":"}.isdisjoint(first) or first == "localhost" or first != first.lower()):
        path = rest
    folder, slash, last = path.rpartition("/")
    return f"{folder}{slash}{last.partition(':')[0]}"
