"""`interpose agent`: gather settings, then follow the cluster for this node; and commands that ask a running agent."""

import os
from typing import Any

from interpose.cli.common.lazy import Subcommand
from interpose.cli.common.options import run_with_settings
from interpose.cli.common.settings_group import SettingsGroup
from interpose.config.agent.table import AGENT
from interpose.config.load import LoadedSettings

_COMMANDS = {
    "status": Subcommand("interpose.cli.agent.status", "status", "Show what a running agent knows and does."),
    "probe": Subcommand("interpose.cli.agent.probe", "probe", "Ask a running agent how it is, for probes."),
}


def _agent(**parameters: Any) -> int:
    return run_with_settings(AGENT, parameters, run_agent)


def run_agent(loaded: LoadedSettings) -> int:
    """Run an agent until a signal ends it; the exit code. ConfigError if it cannot start with these settings."""
    from interpose.cli.agent.checks import check, find_access, node_name

    check(loaded, os.environ)
    access = find_access(loaded.settings, loaded.origins, os.environ)
    from interpose.cli.agent.process import run

    return run(loaded.settings, node_name(loaded.settings, os.environ), access, loaded.origins)


agent = SettingsGroup(
    "agent",
    AGENT,
    table=_COMMANDS,
    callback=_agent,
    help=(
        "Bring the cluster's configuration to this node, and what the node has to say to the cluster. Runs on each "
        "node: the ConfigMap that counts for the node goes to the relay, the NodeSLO to the hook server, and results "
        "are written to the Node. An API server or a relay that is away is waited for."
    ),
)
