"""A deferred module: nothing runs until something of it is used, and then it is the real one."""

import sys
from pathlib import Path

import pytest

from interpose.cli.common.deferred_module import defer

NAME = "costly_module_of_a_library"


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the module makes when it is loaded."""
    made = tmp_path / "loaded"
    (tmp_path / f"{NAME}.py").write_text(f"open({str(made)!r}, 'x').close()\nvalue = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, NAME, sys)  # so that it is gone after the test
    monkeypatch.delitem(sys.modules, NAME)
    return made


def test_module_is_loaded_when_it_is_used(trace: Path) -> None:
    """Once, however often that is; to import it is no use."""
    defer(NAME)
    module = __import__(NAME)
    assert not trace.exists()
    assert (module.value, module.value, trace.exists()) == (5, 5, True)
    assert sys.modules[NAME] is module


def test_name_that_it_does_not_have_is_an_error(trace: Path) -> None:
    """As of the module itself. Names of the import system load nothing."""
    defer(NAME)
    module = __import__(NAME)
    assert not hasattr(module, "__wrapped__")
    assert not trace.exists()
    assert not hasattr(module, "other")


def test_loaded_module_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may have names of it already."""
    monkeypatch.setitem(sys.modules, NAME, pytest)
    defer(NAME)
    assert sys.modules[NAME] is pytest
