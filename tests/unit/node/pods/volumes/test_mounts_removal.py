"""Places where something was mounted go, and nothing behind them."""

import os
from pathlib import Path

import pytest

from interpose.node.pods.volumes.mounts import SystemMounter, remove_empty


def test_places_for_mounts_must_be_empty(tmp_path: Path) -> None:
    """Empty folders and files go; anything else is kept and said."""
    places = tmp_path / "places"
    remove_empty(str(places))  # none is fine
    (places / "a/0").mkdir(parents=True)
    (places / "a/1").touch()
    remove_empty(str(places))
    assert not places.exists()
    (places / "a").mkdir(parents=True)
    (places / "a/0").write_text("somebody's")
    with pytest.raises(OSError, match="is not the empty file"):
        remove_empty(str(places))
    assert (places / "a/0").read_text() == "somebody's"


def test_what_is_bound_to_a_place_is_not_hit(tmp_path: Path) -> None:
    """The kernel keeps a place that is in use."""
    precious, place = tmp_path / "precious", tmp_path / "places/0"
    precious.mkdir()
    (precious / "inner").mkdir()
    place.mkdir(parents=True)
    mounting = SystemMounter()
    fd = os.open(precious / "inner", os.O_PATH)
    try:
        mounting.bind(fd, str(place))
    except OSError as error:
        pytest.skip(f"mounting needs root: {error}")
    finally:
        os.close(fd)
    try:
        with pytest.raises(OSError, match="busy"):
            remove_empty(str(tmp_path / "places"))
    finally:
        mounting.unmount(str(place))
    assert (precious / "inner").is_dir()
