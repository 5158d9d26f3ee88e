"""Names of images in archives."""

import json

import pytest

from interpose.node.runtime.images.archive_names import (
    annotated_names,
    assign_names,
    full_name,
    read_docker_manifest,
    with_digest,
)

DIGEST = "sha256:" + "a" * 64


def test_a_manifest_of_docker_names_files_and_images() -> None:
    """Images without a name have none."""
    document = [
        {"Config": "c.json", "Layers": ["a/layer.tar", "b/layer.tar"], "RepoTags": ["x:1"]},
        {"Config": "d.json", "Layers": None, "RepoTags": None},
    ]
    first, second = read_docker_manifest(json.dumps(document).encode())
    assert (first.config, first.layers, first.tags) == (
        "c.json",
        ("a/layer.tar", "b/layer.tar"),
        ("docker.io/library/x:1",),
    )
    assert (second.layers, second.tags) == ((), ())


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("{", "not JSON"),
        ("{}", "not a list of images"),
        ("[1]", r"key \[0\].Config"),
        ('[{"Config": ""}]', r"key \[0\].Config"),
        ('[{"Config": "c", "Layers": [1]}]', r"key \[0\].Layers"),
        ('[{"Config": "c", "Layers": "x"}]', r"key \[0\].Layers"),
        ('[{"Config": "c", "RepoTags": [1]}]', r"key \[0\].RepoTags"),
        ('[{"Config": "c", "RepoTags": ["A B"]}]', "image reference"),
    ],
)
def test_what_is_none_is_refused(document: str, problem: str) -> None:
    """With the key."""
    with pytest.raises(ValueError, match=problem):
        read_docker_manifest(document.encode())


@pytest.mark.parametrize(
    ("annotations", "base", "names"),
    [
        ({}, "", ()),
        ({"io.containerd.image.name": "host.io/x:2"}, "", ("host.io/x:2",)),
        ({"org.opencontainers.image.ref.name": "busybox:1"}, "", ("docker.io/library/busybox:1",)),
        ({"org.opencontainers.image.ref.name": "host.io/x"}, "", ("host.io/x:latest",)),
        ({"org.opencontainers.image.ref.name": "latest"}, "", ()),
        ({"org.opencontainers.image.ref.name": "v1"}, "host.io/x", ("host.io/x:v1",)),
        (
            {"io.containerd.image.name": "x:1", "org.opencontainers.image.ref.name": "v1"},
            "",
            ("docker.io/library/x:1",),
        ),
    ],
)
def test_annotations_name_images(annotations: dict[str, str], base: str, names: tuple[str, ...]) -> None:
    """A mere tag needs a name from elsewhere."""
    assert annotated_names(annotations, base) == names


def test_repositories_get_the_digest() -> None:
    """Each once."""
    assert with_digest((full_name("x:1"), full_name("x:2")), DIGEST) == (f"docker.io/library/x@{DIGEST}",)


@pytest.mark.parametrize(
    ("names", "given", "expected"),
    [
        ([()], "y:2", [("docker.io/library/y:2",)]),
        ([()], "y", [("docker.io/library/y:latest",)]),
        ([("docker.io/library/x:1",)], "y:2", [("docker.io/library/y:2",)]),
        ([("docker.io/library/x:1",)], "y", [("docker.io/library/y:latest",)]),
        ([("docker.io/library/y:1",)], "y", [("docker.io/library/y:1",)]),
        ([("docker.io/library/y:1",)], "y:2", [("docker.io/library/y:2",)]),
        (
            [("a.example/x:1", "b.example/x:1"), ("a.example/x:2",)],
            "y",
            [("docker.io/library/y:1",), ("docker.io/library/y:2",)],
        ),
    ],
)
def test_a_name_that_is_given(names: list[tuple[str, ...]], given: str, expected: list[tuple[str, ...]]) -> None:
    """One image is called so; a tag of its own, and those of several, stay."""
    assert assign_names(names, given) == expected


@pytest.mark.parametrize(
    ("names", "given", "problem"),
    [
        ([("a:1",), ("a:2",)], "y:2", r"name 'y:2': there are 2 images, and only one of them can have this tag"),
        ([("a:1",), ()], "y", r"name 'y': there are 2 images, and not all of them have a tag"),
        ([("a:1",), ("b:1",)], "y", r"name 'y': more than one image would be docker.io/library/y:1"),
        ([()], f"y@sha256:{64 * 'a'}", r"a digest cannot be given as a name"),
        ([()], "A B", r"image reference 'A B'"),
    ],
)
def test_a_name_that_cannot_be_given(names: list[tuple[str, ...]], given: str, problem: str) -> None:
    """Two images with one name would be one of them in the end."""
    with pytest.raises(ValueError, match=problem):
        assign_names(names, given)
