"""Checks of the settings of a hook server that need other packages: names of hook points and cgroups, real paths.

`config` is below both, so it cannot tell. Checked wherever settings are loaded, before anything is started or shown.
"""

import os
from collections.abc import Iterator
from dataclasses import replace

from interpose.config.hookserver.settings import CgroupSettings, HookServerSettings
from interpose.config.load import LoadedSettings
from interpose.errors import ConfigError
from interpose.hooks.api.hookpoint import HookPoint
from interpose.host.cgroup.paths import CgroupLayout, Driver

_SLICE = ".slice"


def check(loaded: LoadedSettings) -> None:
    """ConfigError with every value that cannot be used, and its origin."""
    settings: HookServerSettings = loaded.settings
    problems = [
        f"{loaded.origins[key]}: {key}: {problem}"
        for key, found in (
            ("hooks.disable_stages", stage_problems(settings.hooks.disable_stages)),
            ("cgroups.kubepods", _kubepods(settings.cgroups)),
        )
        for problem in found
    ]
    if problems:
        raise ConfigError(problems)


def with_real_paths(settings: HookServerSettings) -> HookServerSettings:
    """The settings with links in the paths of the kernel's files resolved: nothing is written through a link."""
    places = settings.cgroups
    root, proc, sys = map(os.path.realpath, (places.root, places.proc_root, places.sys_root))
    return replace(settings, cgroups=replace(places, root=root, proc_root=proc, sys_root=sys))


def stage_problems(names: tuple[str, ...]) -> Iterator[str]:
    """What is wrong with names of hook points."""
    known = [point.value for point in HookPoint]
    return (f"{name!r} is not a hook point, they are {', '.join(known)}" for name in names if name not in known)


def _kubepods(places: CgroupSettings) -> Iterator[str]:
    name = places.kubepods.strip("/")
    drivers = [driver for driver in Driver if places.driver in ("auto", driver)]
    if Driver.SYSTEMD in drivers and name.endswith(_SLICE):
        yield f"{name!r} is the name of a slice, give it without {_SLICE}: {name.removesuffix(_SLICE)!r}"
        return
    for driver in drivers:
        try:
            CgroupLayout(driver=driver, root=name)
        except ValueError as error:
            choice = ", or choose another --cgroup-driver" if places.driver == "auto" else ""
            yield f"{name!r} cannot be used with the driver {driver}: {error}{choice}"
