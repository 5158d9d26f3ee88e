"""Layers are seen as one tree, without mounting anything."""

import os
from pathlib import Path

import pytest

from interpose.node.runtime.images.layers.merged_view import MAX_DEPTH, MergedView
from interpose.node.runtime.images.layers.whiteouts import MARKED


@pytest.fixture
def layers(tmp_path: Path) -> list[Path]:
    """Two layers, highest first."""
    high, low = tmp_path / "high", tmp_path / "low"
    for path in (high / "dir", high / "sealed", low / "dir/deep", low / "sealed", low / "gone"):
        path.mkdir(parents=True)
    (low / "dir/file").write_text("low")
    (low / "sealed/file").touch()
    (low / "lib").symlink_to("/dir")
    (high / ".wh.gone").touch()
    (high / "sealed/.wh..wh..opq").touch()
    (high / "dir/file").write_text("high")
    return [high, low]


def merged(layers: list[Path]) -> MergedView:
    """Both together."""
    return MergedView([str(path) for path in layers], MARKED)


@pytest.mark.parametrize(
    ("place", "layer"),
    [
        ("dir/file", "high"),
        ("dir/deep", "low"),
        ("lib", "low"),
        ("gone", None),
        ("gone/x", None),
        ("sealed/file", None),
        ("none", None),
        ("dir/file/x", None),
        ("lib/file", None),
    ],
)
def test_the_highest_layer_that_says_something_counts(layers: list[Path], place: str, layer: str | None) -> None:
    """Whiteouts and sealed folders hide; nothing is behind a file or a link."""
    found = merged(layers).find(tuple(place.split("/")))
    assert (Path(found.path).relative_to(layers[0].parent).parts[0] if found else None) == layer


def test_the_names_at_the_root_are_those_that_are_seen(layers: list[Path]) -> None:
    """Without what is gone."""
    assert merged(layers).names() == {"dir", "sealed", "lib"}


def test_links_are_followed_inside_of_the_tree(layers: list[Path], tmp_path: Path) -> None:
    """As if it were the root; those of another layer, too."""
    (layers[0] / "up").symlink_to("../../../dir/deep")
    (layers[0] / "loop").symlink_to("loop")
    view = merged(layers)
    assert view.resolve(("lib", "deep")) == ("dir", "deep")
    assert view.resolve(("up", "..", "x")) == ("dir", "x")
    assert view.resolve(("up", ".", "")) == ("dir", "deep")
    assert view.resolve(("none", "x")) == ("none", "x")
    with pytest.raises(ValueError, match="too many symbolic links"):
        view.resolve(("loop",))
    with pytest.raises(ValueError, match="'dir/file' is not a folder"):
        view.resolve(("dir", "file", "x"))


def test_a_device_of_overlay_hides_in_any_form(layers: list[Path]) -> None:
    """It can be nothing else."""
    try:
        os.mknod(layers[0] / "lib", 0o020600, 0)
    except PermissionError:
        pytest.skip("devices need root")
    assert merged(layers).find(("lib",)) is None


def test_the_way_to_a_place_is_gone_once(layers: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at grows with the depth, not with a power of it."""
    place = ("d",) * 100
    for path in layers:
        path.joinpath(*place).mkdir(parents=True)
    looked = 0
    lstat = os.lstat

    def counted(path: str) -> os.stat_result:
        nonlocal looked
        looked += 1
        return lstat(path)

    monkeypatch.setattr(os, "lstat", counted)
    assert merged(layers).resolve(place) == place
    assert merged(layers).find(place) is not None
    assert looked <= 20 * len(place)


def test_folders_are_inside_of_only_so_many(layers: list[Path]) -> None:
    """Also behind links, each of which leads deeper."""
    view = merged(layers)
    assert len(view.resolve(("d",) * (MAX_DEPTH - 1))) == MAX_DEPTH - 1
    with pytest.raises(ValueError, match="inside of 256 folders"):
        view.resolve(("d",) * MAX_DEPTH)
    (layers[0] / "deep").symlink_to("/".join("d" * 200))
    with pytest.raises(ValueError, match="inside of 256 folders"):
        view.resolve(("deep", *("d" * 56)))


def test_links_that_lead_to_and_fro_have_an_end(layers: list[Path]) -> None:
    """Each of them is short enough."""
    for at in range(10):
        (layers[0] / f"l{at}").symlink_to("dir/../" * 250 + f"l{at + 1}")
    with pytest.raises(ValueError, match="more than 4096 parts"):
        merged(layers).resolve(("l0",))
