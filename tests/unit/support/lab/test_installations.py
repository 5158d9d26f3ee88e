"""Which containerd the lab runs, and how it is configured; programs here only say their version."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.support.lab import installations
from tests.support.lab.containerd import configuration
from tests.support.lab.installations import INSTALLATIONS, MACHINE, VARIABLE, candidates, chosen
from tests.support.lab.processes import LabError


@pytest.fixture
def unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of what was unpacked, with a containerd 2."""
    monkeypatch.setattr(installations, "RUNTIMES", tmp_path)
    programs = tmp_path / "containerd-2" / "usr" / "bin"
    programs.mkdir(parents=True)
    for name in ("containerd", "containerd-shim-runc-v2", "ctr"):
        program = programs / name
        program.write_text("#!/bin/sh\necho containerd example/v2 2.1.9+unknown\n")
        program.chmod(0o755)
    (tmp_path / "containerd-2" / "complete").touch()
    (tmp_path / "oci").mkdir()
    (tmp_path / "oci" / "complete").touch()
    return tmp_path


def test_without_a_choice_it_is_the_one_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short stories run on all, then, and on others that are given."""
    monkeypatch.delenv(VARIABLE, raising=False)
    assert chosen() is MACHINE
    assert candidates(("ours",)) == ("ours", *INSTALLATIONS)


def test_a_choice_is_for_all_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short stories run on it alone."""
    monkeypatch.setenv(VARIABLE, "containerd-2")
    assert chosen().name == "containerd-2"
    assert candidates(("ours",)) == ("containerd-2",)


def test_a_choice_that_is_not_known_says_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody runs hours of tests on the wrong one."""
    monkeypatch.setenv(VARIABLE, "containerd-9")
    with pytest.raises(LabError, match=r"LAB_RUNTIME: 'containerd-9' is none of containerd, containerd-1\.7"):
        chosen()


def test_an_unpacked_one_uses_its_own_programs(unpacked: Path) -> None:
    """Also those that it looks up by itself: they come first in its PATH."""
    installation = INSTALLATIONS["containerd-2"]
    programs = unpacked / "containerd-2" / "usr" / "bin"
    assert installation.version() == (2, 1, 9)
    assert installation.program("containerd-shim-runc-v2") == str(programs / "containerd-shim-runc-v2")
    assert installation.path.split(":")[0] == str(programs)


def test_what_is_missing_says_why(unpacked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the words of the script that tried to bring it, if it ran."""
    monkeypatch.setattr(installations, "missing_programs", lambda *_names, root: None)
    assert INSTALLATIONS["containerd-2"].missing() is None
    assert INSTALLATIONS["containerd-1.7"].missing() == "tools/e2e_runtimes.sh did not run: no containerd-1.7"
    (unpacked / "oci" / "complete").unlink()
    (unpacked / "oci.missing").write_text("oci cannot be had here: no network\n")
    assert INSTALLATIONS["containerd-2"].missing() == "oci cannot be had here: no network"


def test_a_configuration_has_the_form_of_its_version(unpacked: Path, tmp_path: Path) -> None:
    """Version 3 for containerd 2; NRI, which is on by default there, has nothing of the machine."""
    crun = INSTALLATIONS["containerd-2-crun"]
    document = tomllib.loads(configuration(tmp_path, crun, "overlayfs"))
    plugins = document["plugins"]
    assert document["version"] == 3
    assert plugins["io.containerd.cri.v1.images"]["snapshotter"] == "overlayfs"
    assert plugins["io.containerd.cri.v1.images"]["pinned_images"]["sandbox"] == "localhost/pause:latest"
    unpack = plugins["io.containerd.transfer.v1.local"]["unpack_config"]
    assert unpack == [{"platform": "linux/amd64", "snapshotter": "overlayfs"}]
    runc = plugins["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]["runc"]
    assert runc["options"]["BinaryName"] == str(unpacked / "oci" / "bin" / "crun")
    assert all(str(tmp_path) in place for place in plugins["io.containerd.nri.v1.nri"].values())


def test_an_older_one_has_the_older_form(unpacked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 2 for containerd 1, all of CRI in one table."""
    programs = unpacked / "machine"
    programs.mkdir()
    (programs / "containerd").write_text("#!/bin/sh\necho containerd example 1.6.20~ds1 1.6.20~ds1-1+deb12u3\n")
    (programs / "containerd").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    document = tomllib.loads(configuration(tmp_path, MACHINE))
    table = document["plugins"]["io.containerd.grpc.v1.cri"]
    assert (document["version"], table["sandbox_image"]) == (2, "localhost/pause:latest")
    assert table["containerd"]["snapshotter"] == "native"
    assert table["containerd"]["runtimes"]["runc"]["options"]["BinaryName"] == ""
