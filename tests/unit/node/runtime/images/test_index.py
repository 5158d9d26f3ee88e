"""Which images there are, and what they are called."""

import json

import pytest

from interpose.node.runtime.images.index import ImageIndex, IndexEntry, read_index, write_index

A, B = ("sha256:" + letter * 64 for letter in "ab")
TAG, OTHER = "docker.io/library/x:1", "docker.io/library/x:2"
DIGEST = f"docker.io/library/x@{B}"


def index(*entries: IndexEntry) -> ImageIndex:
    """An index."""
    return ImageIndex(entries=entries)


def image(image_id: str, *tags: str, digests: tuple[str, ...] = (), size: int = 1, pinned: bool = False) -> IndexEntry:
    """An image."""
    return IndexEntry(id=image_id, tags=tags, digests=digests, size=size, pinned=pinned)


def test_a_tag_moves_and_leaves_the_old_image() -> None:
    """Which stays, without a name if it had no other."""
    found = index(image(A, TAG)).with_image(image(B, TAG))
    assert [(one.id, one.tags) for one in found.entries] == [(A, ()), (B, (TAG,))]


def test_an_image_that_comes_again_gets_more_names() -> None:
    """The larger size counts, and it stays pinned."""
    found = index(image(A, TAG, size=5, pinned=True)).with_image(image(A, OTHER, TAG, digests=(DIGEST,)))
    assert found.entries == (image(A, TAG, OTHER, digests=(DIGEST,), size=5, pinned=True),)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x:1", A),
        (TAG, A),
        (f"x@{B}", B),
        (B, B),
        ("sha256:" + "c" * 64, None),
        ("a" * 64, A),
        ("aa", A),
        ("sha256:bb", B),
        ("sha256:c", None),
        ("y", None),
        ("b", B),
    ],
)
def test_an_image_is_found_by_name_id_and_beginning(text: str, found: str | None) -> None:
    """Names are written out first."""
    entry = index(image(A, TAG), image(B, digests=(DIGEST,))).find(text)
    assert (entry.id if entry else None) == found


def test_a_name_counts_before_an_id_that_begins_alike() -> None:
    """Somebody may call an image `bad`."""
    named = index(image(A, "docker.io/library/bb:latest"), image(B)).find("bb")
    assert named is not None
    assert named.id == A


def test_what_can_be_no_name_is_refused() -> None:
    """And so is a beginning of several."""
    with pytest.raises(ValueError, match="image reference"):
        index().find("A b")
    with pytest.raises(ValueError, match="2 images begin"):
        index(image(A), image("sha256:ab" + "0" * 62)).find("a")


def test_an_image_goes_with_all_or_with_its_last_name() -> None:
    """A name that nobody has changes nothing."""
    both = index(image(A, TAG, OTHER), image(B))
    assert both.without_image(A).entries == (image(B),)
    assert both.without_name(TAG).entries == (image(A, OTHER), image(B))
    assert both.without_name(TAG).without_name(OTHER).entries == (image(B),)
    assert both.without_name("none") == both


def test_digests_go_with_the_last_tag_of_their_repository() -> None:
    """As nobody gave them; those of another repository stay, and so does the tag when a digest goes."""
    elsewhere = f"localhost/mirror@{B}"
    pulled = index(image(A, TAG, OTHER, digests=(DIGEST, elsewhere)))
    once = pulled.without_name(TAG)
    assert once.entries == (image(A, OTHER, digests=(DIGEST, elsewhere)),)
    assert once.without_name(OTHER).entries == (image(A, digests=(elsewhere,)),)
    assert index(image(A, TAG, digests=(DIGEST,))).without_name(TAG).entries == ()
    assert index(image(A, TAG, digests=(DIGEST,))).without_name(DIGEST).entries == (image(A, TAG),)


def test_an_index_is_read_as_it_was_written() -> None:
    """All of it."""
    whole = index(image(A, TAG, OTHER, digests=(DIGEST,), size=9, pinned=True), image(B))
    assert read_index(write_index(whole)) == whole


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("{", "not JSON"),
        ("[]", "key version"),
        ('{"version": 2}', "key version"),
        ('{"version": 1}', "key images"),
        (json.dumps({"version": 1, "images": [1]}), r"key images\[0\]: it has no id"),
        (json.dumps({"version": 1, "images": [{"id": "x", "size": 1}]}), r"key images\[0\]: it has no id"),
        (json.dumps({"version": 1, "images": [{"id": A, "size": 1, "tags": []}]}), r"key images\[0\]: it has no lists"),
    ],
)
def test_what_is_no_index_is_refused(document: str, problem: str) -> None:
    """With the key."""
    with pytest.raises(ValueError, match=problem):
        read_index(document.encode())


def test_more_tags_for_an_image() -> None:
    """A tag of another image moves; an image that is not there gets none."""
    both = index(image(A, TAG), image(B, OTHER))
    tagged = both.with_tags(A, (OTHER, "docker.io/library/z:1"))
    assert {one.id: one.tags for one in tagged.entries} == {A: (TAG, OTHER, "docker.io/library/z:1"), B: ()}
    assert both.with_tags("sha256:none", ("docker.io/library/z:1",)) is both
