"""Values do not show what is secret."""

from interpose.localruntime.images.values import Auth, ImageConfig, PullError, StoredImage


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
