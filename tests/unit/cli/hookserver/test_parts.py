"""What the parts of a hook server are made with: the runtime's socket, stages, the journal."""

from dataclasses import replace
from pathlib import Path

import pytest

from interpose.cli.hookserver.parts import find_runtime_endpoint, find_served_stages, open_journal, select_plugins
from interpose.config.hookserver.settings import CgroupSettings, HookServerSettings, PluginSettings, ServingSettings
from interpose.config.relay.settings import RelaySettings
from interpose.core.model.cgroup import Level, Parameter
from interpose.errors import ConfigError
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.targets import ActuatorTarget


@pytest.mark.parametrize("mode", ["proxy", "standalone", "both"])
def test_a_runtime_that_was_named_is_used(mode: str) -> None:
    """Nobody looks for another."""
    assert find_runtime_endpoint(HookServerSettings(mode=mode, runtime_endpoint="/run/c.sock")) == ("/run/c.sock", None)


@pytest.mark.parametrize("mode", ["proxy", "both"])
def test_whoever_serves_hooks_goes_through_the_relay(mode: str) -> None:
    """So that updates pass all hooks."""
    assert find_runtime_endpoint(HookServerSettings(mode=mode)) == (RelaySettings().listen, None)


def test_alone_the_runtime_is_looked_for_again_and_again(tmp_path: Path) -> None:
    """The first that exists; before any does, the first of the list."""
    known = [str(tmp_path / name) for name in ("containerd.sock", "crio.sock")]
    path, find = find_runtime_endpoint(HookServerSettings(mode="standalone"), known)
    assert find is not None
    assert (path, find()) == (known[0], known[0])
    Path(known[1]).touch()
    assert find() == known[1]


def test_plugins_are_those_of_the_settings() -> None:
    """In their order."""
    settings = HookServerSettings(plugins=replace(PluginSettings(), cpuset=False, oom_score=True))
    assert [one.switch for one in select_plugins(settings)] == ["batch-resource", "group-identity", "oom-score"]


def test_stages_can_be_left_out_by_name() -> None:
    """As the protocol spells them."""
    settings = HookServerSettings(hooks=ServingSettings(disable_stages=("PreRunPodSandbox",)))
    plugins = select_plugins(settings)
    every = find_served_stages(HookServerSettings(), plugins)
    assert every - find_served_stages(settings, plugins) == {HookPoint.PRE_RUN_POD_SANDBOX}


def test_a_stage_that_is_none_is_refused_with_the_ones_there_are() -> None:
    """The message names setting, flag and value."""
    settings = HookServerSettings(hooks=ServingSettings(disable_stages=("PreRunPod",)))
    with pytest.raises(ConfigError, match=r"hooks\.disable_stages.*--disable-stages.*'PreRunPod'.*PreRunPodSandbox"):
        find_served_stages(settings, ())


def at(folder: Path, boot: str) -> HookServerSettings:
    """Settings of a node that was booted so."""
    path = folder / "proc" / "sys" / "kernel" / "random" / "boot_id"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{boot}\n")
    return HookServerSettings(state_dir=str(folder / "state"), cgroups=CgroupSettings(proc_root=str(folder / "proc")))


@pytest.mark.parametrize(("boot", "entries"), [("one", 1), ("two", 0)])
def test_a_journal_is_of_one_boot(tmp_path: Path, boot: str, entries: int) -> None:
    """Cgroups do not outlive it."""
    journal = open_journal(at(tmp_path, "one"))
    target = ActuatorTarget(level=Level.POD, key="kubepods/podu", directory="kubepods/podu")
    journal.note(target, Parameter.CPU_SHARES, found=1, written=2, plugin="toy")
    journal.close()
    again = open_journal(at(tmp_path, boot))
    assert len(again) == entries
    again.close()


def test_a_journal_has_one_owner(tmp_path: Path) -> None:
    """A second one is refused; one that only looks is not."""
    settings = at(tmp_path, "one")
    journal = open_journal(settings)
    with pytest.raises(BlockingIOError, match="in use by another process"):
        open_journal(settings)
    open_journal(settings, reading_only=True).close()
    journal.close()


def test_a_node_that_does_not_tell_its_boot_is_refused(tmp_path: Path) -> None:
    """A journal of the wrong boot would be lost, or believed."""
    settings = HookServerSettings(
        state_dir=str(tmp_path / "state"), cgroups=CgroupSettings(proc_root=str(tmp_path / "nowhere"))
    )
    with pytest.raises(ConfigError, match=r"--proc-root\): file .*boot_id: cannot be read: No such file"):
        open_journal(settings)
