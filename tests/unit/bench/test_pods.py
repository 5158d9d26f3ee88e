"""The benchmark of pods: its options, its networks and what it counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from bench.pods import options
from bench.pods_contestants import LOAD_MARK, Contestant, memory_of, resident_now, write_network

if TYPE_CHECKING:
    from pathlib import Path


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is started."""
    with pytest.raises(SystemExit):
        options(["--parts", "one,all"])

    assert "unknown all; known are one, node, relay, managed, many" in capsys.readouterr().err


def test_each_runtime_has_addresses_of_its_own(tmp_path: Path) -> None:
    """And keeps what it gave out in its own folder."""
    write_network(tmp_path / "a" / "cni", 211)

    document = json.loads((tmp_path / "a" / "cni" / "10-bench.conflist").read_text())

    ipam = document["plugins"][0]["ipam"]
    assert ipam["ranges"] == [[{"subnet": "10.211.0.0/16"}]]
    assert ipam["dataDir"] == str(tmp_path / "a" / "ipam")


def test_memory_of_several_processes_is_added_up() -> None:
    """Pages that are shared count once in PSS; a process that is gone counts nothing."""
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)

    resident, proportional = memory_of([os.getpid(), int(gone.stdout)])

    assert 0 < proportional <= resident
    assert resident_now([os.getpid()]) > 0


def test_containers_of_the_load_are_no_overhead(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are known by what they run."""
    command = [sys.executable, "-c", "print(flush=True); input()", LOAD_MARK]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as load:
        assert load.stdout is not None
        load.stdout.readline()
        monkeypatch.setattr(Contestant, "processes", lambda _self: [os.getpid(), load.pid])
        found = Contestant(name="x", daemon=None, group="/x").overhead()  # type: ignore[arg-type]
        load.communicate(b"\n")

    assert found == [os.getpid()]
