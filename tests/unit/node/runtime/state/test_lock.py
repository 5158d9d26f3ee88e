"""Folders that a runtime has for itself."""

import os
from pathlib import Path

import pytest

from interpose.errors import ConfigError
from interpose.node.runtime.state.lock import RuntimeStateLock
from interpose.node.runtime.state.paths import RuntimePaths


def _places(folder: Path, root: str = "root", state: str = "state") -> RuntimePaths:
    places = RuntimePaths(root=folder / root, state=folder / state)
    places.prepare()
    return places


def test_both_folders_are_ours(tmp_path: Path) -> None:
    """Whoever shares one of them is refused while we are there, by the name of the folder."""
    first = RuntimeStateLock(_places(tmp_path))
    for root, state, words in (("root", "other", "] root "), ("other", "state", "] state ")):
        with pytest.raises(BlockingIOError, match=words):
            RuntimeStateLock(_places(tmp_path, root, state))
    RuntimeStateLock(_places(tmp_path, "other", "third")).release()
    first.release()
    first.release()
    RuntimeStateLock(_places(tmp_path)).release()


def test_pods_of_another_are_left_alone(tmp_path: Path) -> None:
    """Also when that one does not run just now. A state without pods may be anybody's."""
    RuntimeStateLock(_places(tmp_path)).release()
    RuntimeStateLock(_places(tmp_path, "other")).release()
    (tmp_path / "state" / "sandboxes" / ("a" * 64)).mkdir()
    with pytest.raises(ConfigError, match=r"has pods of the runtime with root .*other'"):
        RuntimeStateLock(_places(tmp_path))
    RuntimeStateLock(_places(tmp_path, "other")).release()


def test_any_name_will_do(tmp_path: Path) -> None:
    """Folders need not have names that are text."""
    name = os.fsdecode(b"root-\xff")
    RuntimeStateLock(_places(tmp_path, name)).release()
    (tmp_path / "state" / "sandboxes" / ("a" * 64)).mkdir()
    RuntimeStateLock(_places(tmp_path, name)).release()
    with pytest.raises(ConfigError, match="has pods of"):
        RuntimeStateLock(_places(tmp_path))


def test_root_and_state_are_two(tmp_path: Path) -> None:
    """Whatever way they are named."""
    (tmp_path / "root").mkdir()
    (tmp_path / "link").symlink_to("root")
    with pytest.raises(ConfigError, match="two folders"):
        RuntimeStateLock(_places(tmp_path, "root", "link"))
