"""Names in layers mean places, things that are gone, or nothing; none leads out of the layer."""

import pytest

from interpose.node.runtime.images.layers.tar_names import EntryKind, EntryName, read_name, split_name


@pytest.mark.parametrize(
    ("name", "meaning", "parts"),
    [
        ("etc/passwd", EntryKind.PATH, ("etc", "passwd")),
        ("./etc//passwd/", EntryKind.PATH, ("etc", "passwd")),
        ("/etc", EntryKind.PATH, ("etc",)),
        (".", EntryKind.PATH, ()),
        ("./", EntryKind.PATH, ()),
        ("...", EntryKind.PATH, ("...",)),
        (".wh", EntryKind.PATH, (".wh",)),
        ("etc/.wh.shadow", EntryKind.WHITEOUT, ("etc", "shadow")),
        (".wh.x", EntryKind.WHITEOUT, ("x",)),
        (".wh..x", EntryKind.WHITEOUT, (".x",)),
        ("etc/.wh..wh..opq", EntryKind.OPAQUE, ("etc",)),
        (".wh..wh..opq", EntryKind.OPAQUE, ()),
        (".wh..wh.plnk/1.2", EntryKind.NOTHING, ()),
        (".wh..wh.aufs", EntryKind.NOTHING, ()),
    ],
)
def test_a_name_has_a_meaning(name: str, meaning: EntryKind, parts: tuple[str, ...]) -> None:
    """And a place, from the root of the layer on."""
    assert read_name(name) == EntryName(meaning, parts)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("../x", "leads out of the layer"),
        ("a/../../x", "leads out of the layer"),
        ("a/..", "leads out of the layer"),
        (".wh.", "a whiteout of nothing"),
        (".wh..", "a whiteout of nothing"),
        ("a/.wh...", "a whiteout of nothing"),
        (".wh.a/b", "inside of a whiteout"),
        (".wh..wh..opq/b", "inside of a whiteout"),
        ("a\0b", "a NUL in its name"),
        ("a/" + "b" * 256, "a part of its name is longer"),
        ("a/" * 2100, "its name is longer"),
    ],
)
def test_no_name_leads_out_or_takes_everything_away(name: str, problem: str) -> None:
    """Messages name the entry, without control characters."""
    with pytest.raises(ValueError, match=problem) as caught:
        read_name(name)
    assert str(caught.value).isprintable()


def test_bytes_that_are_no_utf8_are_counted_as_bytes() -> None:
    """Names in layers are bytes."""
    assert split_name("\udcff" * 255) == ("\udcff" * 255,)
    with pytest.raises(ValueError, match="longer than 255"):
        split_name("ü" * 128)
