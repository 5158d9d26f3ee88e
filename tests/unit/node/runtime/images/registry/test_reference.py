"""Names of images are written out as Docker and containerd do it."""

import pytest

from interpose.node.runtime.images.registry.reference import (
    encoded,
    find_id,
    has_explicit_tag,
    is_digest,
    parse_reference,
)

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        ("index.docker.io/library/busybox", "docker.io/library/busybox:latest"),
        ("team/app", "docker.io/team/app:latest"),
        ("library/busybox", "docker.io/library/busybox:latest"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/app:1", "localhost:5000/app:1"),
        ("host:5000/a/b/c", "host:5000/a/b/c:latest"),
        ("registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.9"),
        ("[::1]:5000/app", "[::1]:5000/app:latest"),
        ("HOST/app", "HOST/app:latest"),
        ("a/b__c/d--e.f_g", "docker.io/a/b__c/d--e.f_g:latest"),
        (f"busybox@{DIGEST}", f"docker.io/library/busybox@{DIGEST}"),
        (f"gcr.io/a/b:tag@{DIGEST}", f"gcr.io/a/b@{DIGEST}"),
    ],
)
def test_names_are_written_out(text: str, whole: str) -> None:
    """And what is written out stays as it is."""
    assert str(parse_reference(text)) == whole
    assert str(parse_reference(whole)) == whole


def test_the_parts_are_what_a_registry_needs() -> None:
    """A digest is asked for rather than a tag."""
    tagged, fixed = parse_reference("team/app:1"), parse_reference(f"team/app:1@{DIGEST}")
    assert (tagged.domain, tagged.path, tagged.repository) == ("docker.io", "team/app", "docker.io/team/app")
    assert (tagged.wanted, fixed.wanted) == ("1", DIGEST)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there is no name"),
        (":1", "there is no name"),
        ("a//b", "there is no name"),
        ("host.io/", "there is no name"),
        ("Busybox", "'Busybox' is not made of lower-case"),
        ("a/B/c", "'B' is not made of lower-case"),
        ("a b", "'a b' is not made of lower-case"),
        ("../etc", "'..' is not a name of a registry"),
        ("a/../b", "'..' is not made of lower-case"),
        ("busybox:", "the tag '' must be"),
        ("busybox:-x", "the tag '-x' must be"),
        ("busybox:" + "x" * 129, "must be at most 128"),
        ("busybox@sha256:12", "the digest 'sha256:12' is not"),
        ("busybox@", "the digest '' is not"),
        ("ho_st.io/app", "'ho_st.io' is not a name of a registry"),
        ("a" * 250, "longer than 255"),
    ],
)
def test_what_is_no_name_is_refused_with_its_text(text: str, problem: str) -> None:
    """A message says what is wrong, and about which text."""
    with pytest.raises(ValueError) as caught:
        parse_reference(text)
    assert problem in str(caught.value)
    assert f"image reference {text[:300]!r}" in str(caught.value)


def test_a_very_long_text_is_not_repeated_whole() -> None:
    """Messages have an end."""
    with pytest.raises(ValueError) as caught:
        parse_reference("A" * 10_000)
    assert len(str(caught.value)) < 12_000


def test_digests_are_recognised() -> None:
    """In lower case only, as they are compared as texts."""
    assert is_digest(DIGEST)
    assert not is_digest(DIGEST.upper())
    assert not is_digest(DIGEST[:-1])
    assert encoded(DIGEST) == DIGEST[7:]


def test_the_beginning_of_an_id_is_enough_if_it_is_one() -> None:
    """With and without the name of the digest."""
    ids = ["sha256:" + "a" * 64, "sha256:ab" + "0" * 62]
    assert find_id("ab", ids) == ids[1]
    assert find_id("sha256:aa", ids) == ids[0]
    assert find_id("b", ids) is None
    assert find_id("busybox", ids) is None
    with pytest.raises(ValueError, match="image id 'a': 2 images begin with it"):
        find_id("a", ids)


@pytest.mark.parametrize(
    ("text", "says"),
    [("x", False), ("x:1", True), ("host:5000/x", False), ("host:5000/x:1", True), (f"x@sha256:{64 * 'a'}", False)],
)
def test_a_tag_may_be_left_out(text: str, says: bool) -> None:
    """A port is none."""
    assert has_explicit_tag(text) is says
