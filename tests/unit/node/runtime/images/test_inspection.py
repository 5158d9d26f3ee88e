"""What is known about an image, as a document."""

import json
from pathlib import PurePath

from interpose.node.runtime.images.inspection import inspect_document
from interpose.node.runtime.images.manifests import read_config
from interpose.node.runtime.images.types import StoredImage
from tests.support.node.image_files import layer, make_image

IMAGE = make_image([layer({"a": "1"})], user="1000", env=["A=b"])


def stored(data: bytes) -> StoredImage:
    """An image with this config."""
    return StoredImage(id=IMAGE.id, repo_tags=("x:1",), repo_digests=("x@d",), size=5, config=read_config(data, "x"))


def test_the_keys_of_docker_and_our_own() -> None:
    """The config is as it came, with what we do not read."""
    given = json.loads(IMAGE.config) | {"author": "me", "variant": "v3", "history": [{"created_by": "cp"}]}
    found = inspect_document(stored(json.dumps(given).encode()), json.dumps(given).encode(), [PurePath("/l/1")], ["c1"])
    assert found == {
        "Id": IMAGE.id,
        "RepoTags": ["x:1"],
        "RepoDigests": ["x@d"],
        "Created": "",
        "Author": "me",
        "Architecture": "amd64",
        "Variant": "v3",
        "Os": "linux",
        "Size": 5,
        "Config": {"User": "1000", "Env": ["A=b"]},
        "RootFS": {"Type": "layers", "Layers": given["rootfs"]["diff_ids"]},
        "History": [{"created_by": "cp"}],
        "Pinned": False,
        "Containers": ["c1"],
        "Layers": ["/l/1"],
    }


def test_what_the_config_leaves_out_is_empty() -> None:
    """Also where it says null."""
    given = json.loads(IMAGE.config) | {"config": None}
    data = json.dumps(given).encode()
    found = inspect_document(stored(data), data, [], [])
    assert (found["Config"], found["History"], found["Author"]) == ({}, [], "")
