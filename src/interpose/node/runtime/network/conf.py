"""CNI configurations: files of one plugin (.conf, .json) and of several (.conflist). Pure."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from interpose.node.runtime.network.types import NetworkList

ENDINGS: Final = (".conf", ".conflist", ".json")
_OLDEST: Final = "0.1.0"
_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+", re.ASCII)
# A name becomes part of a path in caches, and a plugin's name is looked up in folders.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*", re.ASCII)


def candidates(names: Iterable[str]) -> list[str]:
    """The files that may be a configuration, in the order in which they are tried."""
    return sorted(name for name in names if name.endswith(ENDINGS) and not name.startswith("."))


def parse(text: str, file: str) -> NetworkList:
    """Parse a configuration; ValueError names file, key and value."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{file}: no JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"{file}: no JSON object")
    plugins = document.get("plugins", [document])
    if not isinstance(plugins, list) or not plugins:
        raise ValueError(f"{file}: plugins: no list of plugins")
    name = document.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{file}: name: {name!r} is not a name of a network")
    version = document.get("cniVersion", _OLDEST)
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise ValueError(f"{file}: cniVersion: {version!r} is not a version")
    for number, plugin in enumerate(plugins):
        kind = plugin.get("type") if isinstance(plugin, dict) else None
        if not isinstance(kind, str) or not _NAME.fullmatch(kind):
            raise ValueError(f"{file}: plugins[{number}].type: {kind!r} is not a name of a plugin")
    return NetworkList(name=name, version=version, plugins=tuple(plugins), file=file)


def at_least(version: str, wanted: tuple[int, int, int]) -> bool:
    """Whether a CNI version is `wanted` or newer."""
    major, minor, patch = (int(part) for part in version.split("."))
    return (major, minor, patch) >= wanted


def as_document(network: NetworkList) -> dict[str, Any]:
    """The network as a document for the result cache; `parse` reads it."""
    return {
        "name": network.name,
        "cniVersion": network.version,
        "plugins": [dict(plugin) for plugin in network.plugins],
    }


def plugin_input(
    network: NetworkList,
    plugin: Mapping[str, Any],
    offered: Mapping[str, Any],
    previous: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The input of a plugin: its configuration, its supported ones of `offered`, and the previous plugin's result."""
    document = {**plugin, "name": network.name, "cniVersion": network.version}
    capabilities = plugin.get("capabilities")
    supported = capabilities if isinstance(capabilities, dict) else {}
    if runtime_config := {key: value for key, value in offered.items() if supported.get(key) and value}:
        document["runtimeConfig"] = runtime_config
    if previous is not None:
        document["prevResult"] = dict(previous)
    return document
