"""Checks of the settings of an agent against its environment, the name of the host and access to the cluster.

Everything that cannot be used is found before anything is started; ConfigError then.
"""

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from interpose.config.agent.settings import AgentSettings
from interpose.config.load import LoadedSettings
from interpose.errors import ConfigError
from interpose.kube.agent.config_kinds import is_name

if TYPE_CHECKING:
    from interpose.kube.client.access import Access

NODE_NAME: Final = "NODE_NAME"


def check(loaded: LoadedSettings, env: Mapping[str, str]) -> None:
    """ConfigError if an agent could not start with this."""
    node_name(loaded.settings, env)


def node_name(settings: AgentSettings, env: Mapping[str, str]) -> str:
    """The name of our Node: the setting, else NODE_NAME, else the host name; ConfigError if it cannot be one."""
    if settings.node_name:
        return settings.node_name
    given = env.get(NODE_NAME, "")
    name = given or socket.gethostname().lower()
    if not is_name(name):
        where = f"environment {NODE_NAME}" if given else "name of the host"
        raise ConfigError(f"{where}: {name!r} is not the name of a node, give one with --node-name")
    return name


def find_access(settings: AgentSettings, origins: Mapping[str, str], env: Mapping[str, str]) -> "Access":
    """How to get to the API server. ConfigError if the kubeconfig cannot be used, or there is nothing to go by."""
    from interpose.kube.client import kubeconfig

    try:
        return kubeconfig.find_access(settings.api.kubeconfig, env)
    except ConfigError as error:
        where = origins["api.kubeconfig"]
        if settings.api.kubeconfig:
            raise ConfigError([f"{where}: {problem}" for problem in error.problems]) from None
        raise ConfigError([f"{problem} (--kubeconfig FILE)" for problem in error.problems]) from None
