"""Tests that hold for one of the two builds only."""

import pytest

from interpose.native import build

patches_constants = pytest.mark.skipif(
    build() == "compiled", reason="the constant that the test patches is part of the compiled code"
)
