"""What is gone is written and read again, in both forms."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from interpose.node.runtime.images.layers.whiteouts import MARKED, OVERLAY, WhiteoutFormat, detect_format


@pytest.fixture(params=["overlay", "marked"])
def form(request: pytest.FixtureRequest, tmp_path: Path) -> WhiteoutFormat:
    """Each form that can be written here."""
    if request.param == "overlay" and detect_format(tmp_path) is not OVERLAY:
        pytest.skip("whiteouts as overlay has them need root and a file system that takes them")
    return OVERLAY if request.param == "overlay" else MARKED


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """An open folder."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_a_hidden_name_is_hidden_until_it_is_shown(form: WhiteoutFormat, folder: int, tmp_path: Path) -> None:
    """A second time there is nothing to show."""
    assert not form.is_hidden(str(tmp_path), "x")
    form.hide(folder, "x")
    assert form.is_hidden(str(tmp_path), "x")
    with os.scandir(tmp_path) as entries:
        assert [(form.is_mark(entry), form.hidden_name(entry)) for entry in entries] == [(True, "x")]
    assert form.show(folder, "x")
    assert not form.show(folder, "x")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_mark(form: WhiteoutFormat, folder: int, tmp_path: Path) -> None:
    """And is not removed by showing it."""
    (tmp_path / "x").touch()
    assert not form.is_hidden(str(tmp_path), "x")
    assert not form.show(folder, "x")
    with os.scandir(tmp_path) as entries:
        assert [form.is_mark(entry) for entry in entries] == [False]


def test_a_sealed_folder_is_sealed(form: WhiteoutFormat, folder: int, tmp_path: Path) -> None:
    """It is about the folder, not about a name."""
    assert not form.is_opaque(str(tmp_path))
    form.make_opaque(folder)
    assert form.is_opaque(str(tmp_path))
    with os.scandir(tmp_path) as entries:
        assert [form.hidden_name(entry) for entry in entries if form.is_mark(entry)] in ([], [""])


def test_a_trial_leaves_nothing(tmp_path: Path) -> None:
    """Whatever it finds out."""
    assert detect_format(tmp_path) in (OVERLAY, MARKED)
    assert list(tmp_path.iterdir()) == []


def test_a_long_name_has_no_mark(folder: int) -> None:
    """There is no room for it, so there is none to show."""
    assert not MARKED.show(folder, "x" * 255)
