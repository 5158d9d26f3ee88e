"""The kernel sees in unpacked layers what the model of a file tree says."""

import ctypes
import io
import os
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from interpose.node.runtime.images.layers.unpack import unpack
from interpose.node.runtime.images.layers.whiteouts import OVERLAY, detect_format
from tests.support.node.layer_model import Entry, Model, RefusedError, Tree, read_tree, tar_of

_PARTS = "abc"


def mount(layers: list[Path], target: Path) -> None:
    """Mount layers, lowest first, one over the other."""
    libc = ctypes.CDLL(None, use_errno=True)
    lower = ":".join(map(str, reversed(layers)))
    if libc.mount(b"overlay", bytes(target), b"overlay", 0, f"lowerdir={lower}".encode()):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def unmount(target: Path) -> None:
    """Take it away again."""
    ctypes.CDLL(None).umount2(bytes(target), 0)


def some_entry(chance: random.Random) -> Entry:
    """Anything that a layer can have."""
    name = "/".join(chance.choices(_PARTS, k=chance.randint(1, 3)))
    kind = chance.choice(["dir", "dir", "file", "gone", "gone", "opaque", "opaque", "link", "hard"])
    if kind == "opaque" and chance.random() < 0.1:
        name = ""  # the root
    values = {
        "dir": 0o755,
        "file": chance.choice(["", "x"]),
        "link": chance.choice(["a", "/b", "../c", "b/c", "/", "."]),
        "hard": "/".join(chance.choices(_PARTS, k=2)),
    }
    return name, kind, values.get(kind)


# What was seen wrong once: whiteouts in folders that hide everything have names that are listed and not there.
_SEEN: tuple[tuple[list[Entry], ...], ...] = (
    ([("d/x", "file", "")], [("d/x", "gone", None), ("d", "opaque", None)]),
    ([("d/e/x", "file", "")], [("d/e/x", "gone", None), ("d", "opaque", None)]),
    ([("d/x", "file", "")], [("d/x", "gone", None), ("d", "gone", None)]),
    ([("d/x", "file", "")], [("d/x", "gone", None), ("d", "gone", None), ("d/y", "file", "")]),
    ([("d/x", "file", "")], [("d/x", "gone", None), ("d", "gone", None), ("d", "opaque", None)]),
    ([("d/x", "file", "")], [("d/x", "gone", None), ("d/y", "hard", "d/y"), ("d", "gone", None)]),
    ([("d/x", "file", ""), ("e", "file", "")], [("d/x", "gone", None), ("", "opaque", None)]),
)


@pytest.mark.parametrize("layers", _SEEN)
def test_a_whiteout_that_hides_nothing_is_not_seen(layers: tuple[list[Entry], ...], tmp_path: Path) -> None:
    """Layers may say the same thing twice, in any order."""
    assert _shown_by_the_kernel(layers, tmp_path) == _said_by_the_model(layers)


@pytest.mark.parametrize("seed", range(60))
def test_overlay_shows_what_the_model_says(seed: int, tmp_path: Path) -> None:
    """Whiteouts, folders that hide, links on the way, and folders that are only implied."""
    chance = random.Random(seed)
    layers: list[list[Entry]] = []
    for _ in range(4):
        layer = [some_entry(chance) for _ in range(chance.randint(1, 7))]
        with suppress(RefusedError):
            _said_by_the_model((*layers, layer))
            layers.append(layer)
    assert _shown_by_the_kernel(layers, tmp_path) == _said_by_the_model(layers)


def _said_by_the_model(layers: Sequence[list[Entry]]) -> Tree:
    model = Model()
    for layer in layers:
        model.add_layer(layer)
    return model.tree


def _shown_by_the_kernel(layers: Sequence[list[Entry]], folder: Path) -> Tree:
    if detect_format(folder) is not OVERLAY:
        pytest.skip("whiteouts as overlay has them need root and a file system that takes them")
    done: list[Path] = []
    for number, layer in enumerate(layers):
        target = folder / f"layer-{number}"
        unpack(io.BytesIO(tar_of(layer)), target, done, OVERLAY)
        done.append(target)
    while len(done) < 2:  # overlay wants several
        done.insert(0, folder / f"empty-{len(done)}")
        done[0].mkdir()
    merged = folder / "merged"
    merged.mkdir()
    try:
        mount(done, merged)
    except OSError as error:
        pytest.skip(f"overlay cannot be mounted: {error.strerror}")
    try:
        return read_tree(merged)
    finally:
        unmount(merged)


def test_a_refused_layer_is_refused_by_the_model_too() -> None:
    """What the test above leaves out is left out for a reason."""
    with pytest.raises(RefusedError):
        Model().add_layer([("a", "file", ""), ("a/b", "file", "")])
