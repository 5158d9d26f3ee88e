"""Layers on disk are what a simple model of a file tree says, in each form; whatever comes, nothing gets out."""

import gzip
import io
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from interpose.node.runtime.images.layers.flatten import flatten
from interpose.node.runtime.images.layers.unpack import unpack
from interpose.node.runtime.images.layers.whiteouts import FORMATS, MARKED, detect_format
from tests.support.node.layer_model import Entry, Model, RefusedError, read_tree, tar_of

_PART = st.sampled_from("abc")
_NAME = st.lists(_PART, min_size=1, max_size=3).map("/".join)
_TARGET = st.sampled_from(["a", "/b", "../c", "b/c", "/a/b", ".", "/", "../../a", "a/../b", "c/"])
_ENTRY = st.one_of(
    st.tuples(_NAME, st.just("dir"), st.sampled_from([0o755, 0o700, 0o711])),
    st.tuples(_NAME, st.just("file"), st.sampled_from(["", "x", "yy"])),
    st.tuples(_NAME, st.just("gone"), st.none()),
    st.tuples(_NAME, st.just("opaque"), st.none()),
    st.tuples(_NAME, st.just("link"), _TARGET),
    st.tuples(_NAME, st.just("hard"), _NAME),
)
_LAYERS = st.lists(st.lists(_ENTRY, max_size=8), min_size=1, max_size=4)


def forms(folder: Path) -> list[str]:
    """Those that can be written here."""
    return sorted({detect_format(folder).name, MARKED.name})


@given(_LAYERS)
def test_layers_are_what_the_model_says(layers: list[list[Entry]]) -> None:
    """Up to the first that both refuse."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for form in forms(folder):
            model = Model()
            done: list[Path] = []
            for number, entries in enumerate(layers):
                target = folder / f"{form}-{number}"
                try:
                    model.add_layer(entries)
                    accepted = True
                except RefusedError:
                    accepted = False
                try:
                    unpack(io.BytesIO(tar_of(entries)), target, done, FORMATS[form])
                    assert accepted
                except ValueError:
                    assert not accepted
                    break
                done.append(target)
                flat = folder / f"{form}-flat-{number}"
                flatten(done, flat)
                assert read_tree(flat) == model.tree


@given(_LAYERS, st.binary(max_size=600), st.integers(0, 4000), st.booleans())
def test_damaged_layers_are_refused_or_unpacked_and_nothing_gets_out(
    layers: list[list[Entry]], noise: bytes, at: int, compress: bool
) -> None:
    """Some bytes of a tar file are replaced by others. Only ValueError comes, and nothing is beside the layer."""
    data = tar_of(layers[0])
    data = data[:at] + noise + data[at + len(noise) :]
    if compress:
        data = gzip.compress(data, 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with suppress(ValueError):
            unpack(io.BytesIO(data), folder / "layer", [], MARKED, privileged=False)
        assert [path.name for path in folder.iterdir()] == ["layer"]
