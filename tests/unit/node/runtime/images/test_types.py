"""Values do not show what is secret."""

import pytest

from interpose.node.runtime.images.types import Auth, ImageConfig, PullError, StoredImage


def test_credentials_are_in_no_text() -> None:
    """Whatever is printed."""
    auth = Auth(username="u1", password="p1", auth="a1", identity_token="i1", registry_token="r1", server_address="s1")
    assert repr(auth) == "Auth()"


def test_an_image_has_tags_before_digests() -> None:
    """As names for people."""
    image = StoredImage(id="x", repo_tags=("t",), repo_digests=("d",), size=1, config=ImageConfig())
    assert image.names == ("t", "d")


def test_an_error_says_whether_there_is_none() -> None:
    """Or whether it could not be had."""
    assert PullError("x", not_found=True).not_found
    assert not PullError("x").not_found


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        (("y:2",), "docker.io/library/y:2"),
        (("sha256:1", "y:2"), "docker.io/library/y:2"),
        (("x:1", "y:2"), "docker.io/library/y:2"),
        (("y:2", ""), "docker.io/library/y:2"),
        (("other:1",), "docker.io/library/x:1"),
        ((), "docker.io/library/x:1"),
    ],
)
def test_an_image_is_called_as_somebody_called_it(texts: tuple[str, ...], name: str) -> None:
    """If it has that name; what its author wrote counts before what the kubelet made of it."""
    tags = ("docker.io/library/x:1", "docker.io/library/y:2")
    assert StoredImage(id="sha256:1", repo_tags=tags, size=1, config=ImageConfig()).matching_tag(*texts) == name
    assert StoredImage(id="sha256:1", size=1, config=ImageConfig()).matching_tag(*texts) == ""
