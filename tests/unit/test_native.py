"""Which build of the data path runs."""

import sys
from importlib.machinery import ModuleSpec

import pytest

from interpose import native
from interpose.net.h2 import connection


def test_build_is_told_by_the_frame_loop() -> None:
    """A compiled module is a shared library."""
    assert native.build() == ("pure" if (connection.__file__ or "").endswith(".py") else "compiled")


@pytest.mark.parametrize(
    ("origin", "build"),
    [
        ("/x/connection.py", "pure"),
        (f"/x/connection.{sys.implementation.cache_tag}-x86_64-linux-gnu.so", "compiled"),
        (None, "pure"),
    ],
)
def test_both_builds(monkeypatch: pytest.MonkeyPatch, origin: str | None, build: str) -> None:
    """Whatever this test runs on."""
    monkeypatch.setattr(native, "find_spec", lambda name: ModuleSpec(name, None, origin=origin))
    assert native.build() == build


def test_no_frame_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the package: nothing is compiled."""
    monkeypatch.setattr(native, "find_spec", lambda name: None)
    assert native.build() == "pure"
