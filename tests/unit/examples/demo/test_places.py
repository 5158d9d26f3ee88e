"""The demo's node is one that all programs take, and touches nothing else."""

import os
from pathlib import Path

import pytest

from examples.demo.parts import BEFORE
from examples.demo.places import Places, forget_settings, write_cgroups
from interpose.cli.pod.run import run
from interpose.config.agent.table import AGENT_SETTINGS
from interpose.config.hookserver.table import HOOKSERVER_SETTINGS
from interpose.config.relay.table import RELAY_SETTINGS
from interpose.config.runtime.table import RUNTIME_SETTINGS
from interpose.node.runtime.cgroups.cgroups import detect


def test_every_setting_exists() -> None:
    """A name that nobody reads would send a program to the places of a real node."""
    tables = (*RELAY_SETTINGS, *HOOKSERVER_SETTINGS, *AGENT_SETTINGS, *RUNTIME_SETTINGS)
    known = {setting.env for setting in tables}
    for option in run.params:
        known.update([option.envvar] if isinstance(option.envvar, str) else option.envvar or ())

    assert Places(Path("/demo")).environment().keys() <= known | {"PATH"}


def test_every_path_is_in_the_folder() -> None:
    """Nothing of the machine is touched."""
    settings = {**Places(Path("/demo")).environment()}
    del settings["PATH"]

    assert settings.pop("INTERPOSE_RUNTIME_ADMIN_LISTEN") == "none"
    assert all(path.startswith("/demo/") for path in settings.values())


def test_what_programs_need_is_there_at_once(tmp_path: Path) -> None:
    """The policy, manifests of the first pods where they count, and those of others beside."""
    places = Places(tmp_path)
    places.prepare()

    assert places.nodeslo.read_text() == BEFORE
    assert sorted(path.name for path in places.manifests.iterdir()) == ["reports.yaml", "web.yaml"]
    assert {"mailer.yaml", "orders.yaml", "tools.tar"} <= {path.name for path in tmp_path.iterdir()}


def test_cgroups_are_those_of_a_folder_and_new_ones_have_files(tmp_path: Path) -> None:
    """No process would be moved there."""
    write_cgroups(tmp_path)
    cgroups = detect(str(tmp_path))
    cgroups.make("kubepods/pod1")

    assert (cgroups.version, cgroups.scratch) == (1, True)
    assert (tmp_path / "cpuset/kubepods/pod1/cpuset.cpus").read_text() == "0-15\n"
    assert (tmp_path / "cpu/kubepods/pod1/cpu.bvt_warp_ns").read_text() == "0\n"
    assert not list(tmp_path.rglob("cgroup.procs"))


def test_settings_of_the_shell_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are for others."""
    monkeypatch.setenv("INTERPOSE_HOOKSERVER_CPUSET", "false")
    monkeypatch.setenv("CONTAINER_RUNTIME_ENDPOINT", "/x")
    monkeypatch.setenv("OTHER", "1")
    forget_settings()

    assert "INTERPOSE_HOOKSERVER_CPUSET" not in os.environ
    assert "CONTAINER_RUNTIME_ENDPOINT" not in os.environ
    assert os.environ["OTHER"] == "1"
