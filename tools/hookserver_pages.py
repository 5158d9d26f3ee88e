"""What the pages of docs/reference say about the hook server: its metrics, and its plugins."""

import io
import logging
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from interpose.cli.hookserver.admin import HookServerViews
from interpose.cli.hookserver.process import HookServerDaemon
from interpose.config.hookserver.settings import CgroupSettings, HookServerSettings, PluginSettings
from interpose.config.hookserver.table import HOOKSERVER
from interpose.config.relay.settings import AdminSettings
from interpose.core.model.cgroup import CREATE_FIELDS, CRI_FIELDS, Level, Parameter
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.plugin import AnyPlugin, Input
from interpose.hooks.server.plugin_registry import all_plugins
from interpose.hooks.server.proxy.proxy_mode import HookOutcome
from interpose.hooks.server.reconcile.reconciler import ReconcilePass
from interpose.log import LineHandler, LogControl
from interpose.metrics import Family, gather
from interpose.testing.fakenode import PlainCgroups

PLUGINS_INTRO = """\
The plugins of `interpose hookserver`, in the order in which they run: where two want the same value, the later one has
it. Each has a [page](../hooks/README.md#plugins-of-our-own) that says what it reads and which values come of it.

- **Switch**: the flag; `--no-...` turns a plugin off. The key in the settings file is below `plugins`.
- **Hook points**: those at which the relay asks for it. A hook point is registered if a plugin that is on needs it.
- **Made again when these change**: inputs of the plugin's rule. Labels and annotations of pods always count."""

SERVES_INTRO = """\
What a plugin may set. **Way** is how a value gets there: *create* in the request that creates the container, *update*
by CRI's `UpdateContainerResources` while it runs, *directly* by the hook server itself, in the kernel's files (cookies
of core scheduling: by system calls)."""

LEVELS: Mapping[Level, str] = {Level.QOS: "directory of a QoS class", Level.SANDBOX: "sandbox container"}
DIRECTLY = "directly"


async def hookserver_families() -> list[Family]:
    """Every family the hook server can show. One of everything that is counted is put in, so that labels appear."""
    with tempfile.TemporaryDirectory() as folder:
        root = PlainCgroups(Path(folder, "cgroup")).root
        settings = HookServerSettings(
            mode="standalone",
            state_dir=folder,
            admin=AdminSettings(listen="none"),
            cgroups=CgroupSettings(root=root),
        )
        log = LogControl(logging.getLogger("page"), LineHandler(io.StringIO()))
        daemon = HookServerDaemon(settings, {}, log)
        try:
            _use(daemon)
            return gather(HookServerViews(settings, {}, daemon, log).collectors())
        finally:
            await daemon.close()


def _use(daemon: HookServerDaemon) -> None:
    parts, proxy = daemon.parts, daemon.proxy
    proxy.outcomes[HookPoint.PRE_RUN_POD_SANDBOX, HookOutcome.CHANGED] = 1
    proxy.effect_failures["effect", "reason"] = 1
    proxy.conflicts["parameter", "loser", "winner"] = 1
    parts.applier.writes[Parameter.CPU_SHARES, "ok"] = 1
    parts.applier.drift["plugin", Parameter.CPU_SHARES] = 1
    parts.reconciler.passes["reason"] = 1
    parts.reconciler.last = ReconcilePass(reason="reason")


def hook_plugins(notice: str) -> str:
    """The page about plugins."""
    plugins = all_plugins(PluginSettings())
    head = ["Plugin", "Switch", "Default", "Hook points", "Made again when these change", "What it does"]
    parts = [notice, "# Hook plugins", PLUGINS_INTRO, _table(head, map(_row, plugins))]
    rows = [row for plugin in plugins for row in _values(plugin)]
    parts += ["## Values", SERVES_INTRO, _table(["Plugin", "Level", "Value", "Way"], rows)]
    return "\n\n".join(parts) + "\n"


def _row(plugin: AnyPlugin) -> list[str]:
    key = f"plugins.{plugin.switch.replace('-', '_')}"
    flag = next(setting.flag for setting in HOOKSERVER.table if setting.key == key)
    # The settings decide; what the plugin says of itself must be the same.
    on = bool(getattr(PluginSettings(), plugin.switch.replace("-", "_")))
    assert on == plugin.default, plugin.name
    summary = plugin.summary[0].upper() + plugin.summary[1:].rstrip(".")
    return [
        f"`{plugin.name}`",
        f"`{flag}`",
        "on" if on else "off",
        " ".join(f"`{point}`" for point in HookPoint if point in plugin.stages) or "–",
        ", ".join(one.value for one in Input if one in plugin.inputs) or "–",
        summary,
    ]


def _values(plugin: AnyPlugin) -> Iterable[list[str]]:
    for level in Level:
        served = plugin.serves.get(level, frozenset())
        for parameter in Parameter:
            if parameter in served:
                yield [f"`{plugin.name}`", LEVELS.get(level, level.value), f"`{parameter}`", _way(level, parameter)]
    if plugin.envs:
        yield [f"`{plugin.name}`", Level.CONTAINER.value, "environment variables", "create"]


def _way(level: Level, parameter: Parameter) -> str:
    if level is Level.CONTAINER and parameter in CREATE_FIELDS:
        return f"create, {'update' if parameter in CRI_FIELDS else DIRECTLY}"
    return DIRECTLY


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(header)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows])
