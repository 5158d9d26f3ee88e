"""`cri-resmgr-agent`: the agent under the name, flags and defaults of CRI Resource Manager.

It feeds no hook server, which that project does not have.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from interpose.cli.common.stdio import standard_streams
from interpose.cli.compat.cri_resmgr_common import COMMON, ResmgrProgram, run_program
from interpose.cli.compat.cri_resmgr_flags import ResmgrFlag, socket_or_off
from interpose.config.agent.table import AGENT
from interpose.config.load import LoadedSettings

PROGRAM: Final = "cri-resmgr-agent"
SOCKET: Final = "/var/run/cri-resmgr-agent.sock"


FLAGS: Final[Mapping[str, ResmgrFlag]] = MappingProxyType(
    {
        "kubeconfig": ResmgrFlag(
            "file that says where the API server is; empty: the service account of our own pod",
            key="api.kubeconfig",
        ),
        "agent-socket": ResmgrFlag(
            'socket on which cri-resmgr reads and changes the node through us; "disabled" turns it off',
            SOCKET,
            "service.socket",
            read=socket_or_off,
        ),
        "cri-resmgr-socket": ResmgrFlag(
            'socket on which cri-resmgr takes configuration; "disabled": none is sent',
            "/var/run/cri-resmgr-config.sock",
            "config.socket",
            read=socket_or_off,
        ),
        "config-ns": ResmgrFlag("namespace of the ConfigMaps", "kube-system", "config.namespace"),
        "configmap-name": ResmgrFlag(
            "ConfigMap; NAME.node.NODE, NAME.group.GROUP and NAME.default count before it, the first that exists",
            "cri-resmgr-config",
            "config.map",
        ),
        "label-name": ResmgrFlag(
            "label of the node that names its group", "cri-resource-manager.intel.com/group", "config.group_label"
        ),
        **COMMON,
    }
)
ABOUT: Final = """\
Brings configuration from the cluster to cri-resmgr on this node, and what its policies publish to the cluster. This is
`interpose agent` with other flags, and without a file for a hook server. NODE_NAME in the environment is the name of
the node. Flags are written -flag value, -flag=value, --flag value or --flag=value. Everything else can be set by
INTERPOSE_AGENT_* environment variables, which `interpose agent --help` lists."""


def check(loaded: LoadedSettings, env: Mapping[str, str]) -> LoadedSettings:
    """The old program needs NODE_NAME; a node is mostly called as its host is, so that is tried, with a warning."""
    if loaded.settings.node_name or env.get("NODE_NAME"):
        return loaded
    from interpose.cli.agent.checks import node_name

    note = f"NODE_NAME is not set, the node is taken to be {node_name(loaded.settings, env)!r}, as this host is called"
    return replace(loaded, warnings=(*loaded.warnings, note))


def run(loaded: LoadedSettings) -> int:
    """Run an agent until a signal ends it; the exit code."""
    from interpose.cli.agent.command import run_agent

    return run_agent(loaded)


AGENT_PROGRAM: Final = ResmgrProgram(
    name=PROGRAM,
    about=ABOUT,
    flags=FLAGS,
    schema=AGENT,
    run=run,
    presets=MappingProxyType({"node_state.file": "none"}),
    check=check,
)


def run_command(arguments: Sequence[str], env: Mapping[str, str]) -> int:
    """The whole program but for the process exit."""
    return run_program(AGENT_PROGRAM, arguments, env)


def main() -> None:
    """Entry point of the `cri-resmgr-agent` program."""
    with standard_streams():
        sys.exit(run_command(sys.argv[1:], os.environ))
