"""All that is known about an image as one document, with the keys of `docker image inspect`. Pure."""

import json
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from interpose.node.runtime.images.types import StoredImage


def inspected(
    image: StoredImage, config_data: bytes, layers: Sequence[PurePath], containers: Sequence[str]
) -> dict[str, Any]:
    """`config_data` is the config as it came, `layers` where its layers are, `containers` who was made of it."""
    given: dict[str, Any] = json.loads(config_data)
    return {
        "Id": image.id,
        "RepoTags": list(image.repo_tags),
        "RepoDigests": list(image.repo_digests),
        "Created": image.config.created,
        "Author": given.get("author", ""),
        "Architecture": image.config.architecture,
        "Variant": given.get("variant", ""),
        "Os": image.config.os,
        "Size": image.size,
        "Config": given.get("config") or {},
        "RootFS": {"Type": "layers", "Layers": list(image.config.diff_ids)},
        "History": given.get("history") or [],
        "Pinned": image.pinned,
        "Containers": list(containers),
        "Layers": [str(path) for path in layers],
    }
