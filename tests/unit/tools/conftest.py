"""Tools are scripts that import their neighbours; their tests see them the same way."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).parents[3] / "tools"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """A tool's module by name."""
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module
