"""Settings that only those can judge who know hook points and cgroups."""

from dataclasses import replace
from pathlib import Path

import pytest

from interpose.cli.hookserver.checks import check, with_real_paths
from interpose.config.hookserver.settings import CgroupSettings, HookServerSettings
from interpose.config.hookserver.table import HOOKSERVER
from interpose.config.load import LoadedSettings, SettingText, load
from interpose.errors import ConfigError


def loaded(**values: str) -> LoadedSettings:
    """Settings with these values, by the last part of their keys."""
    keys = {setting.key.rpartition(".")[2]: setting for setting in HOOKSERVER.table}
    flags = {keys[name].key: SettingText(value, f"flag {keys[name].flag}") for name, value in values.items()}
    return load(HOOKSERVER, flags=flags, env={})


def problems(**values: str) -> list[str]:
    """What is wrong with these values."""
    try:
        check(loaded(**values))
    except ConfigError as error:
        return error.problems
    return []


@pytest.mark.parametrize(
    ("kubepods", "driver"),
    [
        ("kubepods", "auto"),
        ("/lab/kubepods/", "auto"),
        ("lab.slice/kubepods", "auto"),
        ("lab-kubepods", "systemd"),
        ("a--b", "cgroupfs"),
        ("lab/kubepods.slice", "cgroupfs"),
    ],
)
def test_names_of_cgroups(kubepods: str, driver: str) -> None:
    """Whatever the driver can be used with; the other one does not matter."""
    assert problems(kubepods=kubepods, driver=driver) == []


@pytest.mark.parametrize(
    ("kubepods", "driver", "hint"),
    [("a--b", "systemd", ""), ("a--b", "auto", ", or choose another --cgroup-driver"), ("-a", "systemd", "")],
)
def test_name_that_is_no_cgroup(kubepods: str, driver: str, hint: str) -> None:
    """It is named with the flag, and why."""
    (problem,) = problems(kubepods=kubepods, driver=driver)
    assert problem.startswith(
        f"flag --kubepods: cgroups.kubepods: {kubepods!r} cannot be used with the driver systemd: "
    )
    assert problem.endswith(f"'{kubepods}.slice' is not a name of a slice{hint}")


def test_name_no_driver_can_use() -> None:
    """Each says so."""
    made = loaded(driver="auto")
    made = replace(made, settings=replace(made.settings, cgroups=CgroupSettings(kubepods="a\0b")))
    with pytest.raises(ConfigError) as error:
        check(made)
    assert [problem.startswith("default: cgroups.kubepods: 'a\\x00b'") for problem in error.value.problems] == [
        True
    ] * 2


@pytest.mark.parametrize(
    ("kubepods", "meant"),
    [("kubepods.slice", "kubepods"), ("/kubepods.slice/", "kubepods"), ("lab/kubepods.slice", "lab/kubepods")],
)
@pytest.mark.parametrize("driver", ["auto", "systemd"])
def test_name_of_a_slice(kubepods: str, meant: str, driver: str) -> None:
    """People copy what they see; the suffix would be there twice."""
    shown = kubepods.strip("/")
    assert problems(kubepods=kubepods, driver=driver) == [
        f"flag --kubepods: cgroups.kubepods: {shown!r} is the name of a slice, give it without .slice: {meant!r}"
    ]


def test_stage_that_is_none() -> None:
    """With the ones there are, together with everything else that is wrong."""
    (stage, other, kubepods) = problems(disable_stages="PreRunPod,PreCreateContainer,x", kubepods="a--b")
    start = "flag --disable-stages: hooks.disable_stages: "
    assert stage.startswith(f"{start}'PreRunPod' is not a hook point, they are PreRunPodSandbox, ")
    assert other.startswith(f"{start}'x' is not a hook point")
    assert "--kubepods" in kubepods
    assert problems(disable_stages="PreRunPodSandbox,PreCreateContainer") == []


def test_paths_may_lead_through_links(tmp_path: Path) -> None:
    """The files behind them are written, and nothing is written through a link."""
    for name in ("cgroup", "proc", "sys"):
        (tmp_path / "real" / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    places = CgroupSettings(
        root=f"{tmp_path}/link/cgroup", proc_root=f"{tmp_path}/link/proc", sys_root=f"{tmp_path}/link/sys"
    )
    found = with_real_paths(HookServerSettings(cgroups=places)).cgroups
    real = f"{tmp_path}/real"
    assert (found.root, found.proc_root, found.sys_root) == (f"{real}/cgroup", f"{real}/proc", f"{real}/sys")
    assert found.kubepods == places.kubepods
