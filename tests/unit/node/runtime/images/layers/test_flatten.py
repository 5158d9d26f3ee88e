"""Layers become one plain folder."""

import io
import os
import socket
import tarfile
from pathlib import Path

import pytest

from interpose.node.runtime.images.layers.flatten import flatten
from interpose.node.runtime.images.layers.tar_reader import StoppedError
from interpose.node.runtime.images.layers.unpack import unpack
from interpose.node.runtime.images.layers.whiteouts import MARKED, detect_format
from tests.support.node.image_files import entry, layer, tar


def layers(folder: Path, *data: bytes) -> list[Path]:
    """Layers, unpacked."""
    done: list[Path] = []
    for number, one in enumerate(data):
        target = folder / f"layer-{number}"
        unpack(io.BytesIO(one), target, list(done), detect_format(folder))
        done.append(target)
    return done


def test_hard_links_are_one_file(tmp_path: Path) -> None:
    """Inside of a layer."""
    flatten(layers(tmp_path, layer({"a/x": "1", "b": "= a/x"})), tmp_path / "flat")
    assert (tmp_path / "flat/b").samefile(tmp_path / "flat/a/x")
    assert not (tmp_path / "flat/b").samefile(tmp_path / "layer-0/b")


def test_a_layer_stays_as_it_was(tmp_path: Path) -> None:
    """Whoever writes into the copy writes into the copy."""
    done = layers(tmp_path, layer({"x": "1"}))
    flatten(done, tmp_path / "flat")
    (tmp_path / "flat/x").write_text("2")
    assert (done[0] / "x").read_text() == "1"


def test_times_and_modes_are_those_of_the_layers(tmp_path: Path) -> None:
    """Also of folders that something was put into."""
    data = tar([entry("d", tarfile.DIRTYPE, mode=0o711, mtime=5), entry("d/x", mtime=7, mode=0o640)])
    flatten(layers(tmp_path, data), tmp_path / "flat")
    folder, file = (tmp_path / "flat/d").stat(), (tmp_path / "flat/d/x").stat()
    assert (folder.st_mtime, folder.st_mode & 0o077, file.st_mtime, file.st_mode & 0o777) == (5, 0o011, 7, 0o640)


def test_links_in_the_target_are_replaced_and_not_followed(tmp_path: Path) -> None:
    """A folder of a higher layer in the place of a link of a lower one."""
    (tmp_path / "outside").mkdir()
    done = layers(tmp_path, layer({"a": f"-> {tmp_path}/outside"}), layer({"a/": 0o755}))
    (done[1] / "a/file").write_text("inside")
    flatten(done, tmp_path / "flat")
    assert list((tmp_path / "outside").iterdir()) == []
    assert (tmp_path / "flat/a/file").read_text() == "inside"


def test_sockets_and_devices_that_may_not_be_made_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is there."""
    (tmp_path / "layer").mkdir()
    (tmp_path / "layer/x").touch()
    os.mkfifo(tmp_path / "layer/pipe")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "no")

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "layer/s"))
        monkeypatch.setattr(os, "mknod", refuse)
        flatten([tmp_path / "layer"], tmp_path / "flat")
    assert [path.name for path in (tmp_path / "flat").iterdir()] == ["x"]


def test_a_file_that_cannot_be_read_is_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not left out in silence."""
    (tmp_path / "layer").mkdir()
    (tmp_path / "layer/x").touch()

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "no")

    monkeypatch.setattr("interpose.node.runtime.images.layers.flatten.copy_data", refuse)
    with pytest.raises(PermissionError):
        flatten([tmp_path / "layer"], tmp_path / "flat")


def test_whoever_does_not_want_it_any_more_stops_it(tmp_path: Path) -> None:
    """Between two folders."""
    unpack(io.BytesIO(layer({"x": ""})), tmp_path / "layer", [], MARKED)
    with pytest.raises(StoppedError):
        flatten([tmp_path / "layer"], tmp_path / "flat", stopped=lambda: True)


def test_a_folder_has_the_attributes_of_the_highest_layer_alone(tmp_path: Path) -> None:
    """As overlayfs shows it."""
    lower, _ = entry("d", tarfile.DIRTYPE)
    lower.pax_headers = {"SCHILY.xattr.user.a": "1", "SCHILY.xattr.user.b": "1"}
    upper, _ = entry("d", tarfile.DIRTYPE)
    upper.pax_headers = {"SCHILY.xattr.user.b": "2"}
    done = layers(tmp_path, tar([(lower, b"")]), tar([(upper, b"")]))
    if not os.listxattr(done[0] / "d"):
        pytest.skip("this file system keeps no attributes")
    flatten(done, tmp_path / "flat")
    assert os.listxattr(tmp_path / "flat/d") == ["user.b"]
    assert os.getxattr(tmp_path / "flat/d", "user.b") == b"2"
