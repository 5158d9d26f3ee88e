"""An image as a document with the keys of `docker image inspect`. Pure."""

import json
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from interpose.node.runtime.images.types import StoredImage


def inspect_document(
    image: StoredImage, config_data: bytes, layers: Sequence[PurePath], containers: Sequence[str]
) -> dict[str, Any]:
    """`config_data` is the config blob, `layers` the folders of the layers, `containers` the ids that use the image."""
    config: dict[str, Any] = json.loads(config_data)
    return {
        "Id": image.id,
        "RepoTags": list(image.repo_tags),
        "RepoDigests": list(image.repo_digests),
        "Created": image.config.created,
        "Author": config.get("author", ""),
        "Architecture": image.config.architecture,
        "Variant": config.get("variant", ""),
        "Os": image.config.os,
        "Size": image.size,
        "Config": config.get("config") or {},
        "RootFS": {"Type": "layers", "Layers": list(image.config.diff_ids)},
        "History": config.get("history") or [],
        "Pinned": image.pinned,
        "Containers": list(containers),
        "Layers": [str(path) for path in layers],
    }
