"""Names of images."""

import pytest

from interpose.node.pods.sync.image_puller import with_tag


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("busybox", "busybox:latest"),
        ("busybox:1", "busybox:1"),
        ("reg.example:5000/a/b", "reg.example:5000/a/b:latest"),
        ("reg.example:5000/a/b:2", "reg.example:5000/a/b:2"),
        ("busybox@sha256:abc", "busybox@sha256:abc"),
        ("team/app:RC1", "team/app:RC1"),
        ("localhost/a", "localhost/a:latest"),
        ("REG/a", "REG/a:latest"),
    ],
)
def test_a_name_without_tag_and_digest_gets_the_latest(image: str, name: str) -> None:
    """A port is no tag."""
    assert with_tag(image) == name


@pytest.mark.parametrize("image", ["", "a b", "a\n", ":tag", "@sha256:x", "/a", "a:", "a/", "a@"])
def test_what_is_no_name_is_refused(image: str) -> None:
    """And shown."""
    with pytest.raises(ValueError, match="is not the name of an image"):
        with_tag(image)


@pytest.mark.parametrize(
    ("image", "repository"),
    [("Bad", "Bad"), ("REG/Bad:1", "Bad"), ("reg.example:5000/a/B@sha256:x", "a/B"), ("a/B", "a/B")],
)
def test_repositories_are_lower_case(image: str, repository: str) -> None:
    """As for kubelets: no runtime has to be asked."""
    with pytest.raises(ValueError, match=f"repository '{repository}' must be lower-case"):
        with_tag(image)
