"""The demo's cluster: a Node and a ConfigMap in a test API server, and what becomes of containers with each version.

The agent is a process of its own and reaches the server over a socket, as it reaches a real one.
"""

import textwrap
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from examples.demo.parts import CPUS, GUEST
from examples.demo.report import EDITED, Values
from interpose.core.model.cgroup import Parameter
from tests.support.apiserver.server import ApiServer
from tests.support.kube.agent_stack import MAP, NAMESPACE, Cluster

NODE: Final = "node-1"
_INDENT: Final = " " * 6
KEY: Final = "policy"
SOURCE: Final = f"{NAMESPACE}/{MAP}"
# Edits of the demo follow each other faster than those of people.
OPTIONS: Final = ("--node-name", NODE, "--push-interval", "0")

# Three versions of the map: all CPUs, half of them, and a slip.
WIDE: Final = f"AvailableResources:\n  CPU: {CPUS}\n"
NARROW: Final = "AvailableResources:\n  CPU: 0-7\n"
SLIP: Final = "AvailableResource:\n  CPU: 0-7\n"

# With the second: who shares CPUs has to do with what is left of the first half.
NARROWED: Final[Values] = {
    spot: "0-1,6-7" if spot.parameter is Parameter.CPUSET_CPUS and spot.pod != GUEST.name else value
    for spot, value in EDITED.items()
}


@asynccontextmanager
async def demo_cluster(kubeconfig: Path) -> AsyncIterator[Cluster]:
    """It runs inside the block, with the first version of the map."""
    async with ApiServer(nodes=(NODE,)) as server:
        made = Cluster(server, server.kubeconfig(kubeconfig), NODE)
        publish(made, WIDE)
        yield made


def publish(made: Cluster, text: str) -> None:
    """Make the ConfigMap say this."""
    made.configure({KEY: text})


def condition_text(condition: Mapping[str, Any], width: int) -> list[str]:
    """What the Node says of its configuration, for people."""
    said = " ".join(str(condition.get(key, "")) for key in ("type", "status", "reason", "message"))
    return textwrap.wrap(said, width, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False)


def wrong_condition(condition: Mapping[str, Any]) -> list[str]:
    """How the Node differs from one that tells of the slip."""
    found = condition.get("status"), condition.get("reason")
    told = found == ("False", "ConfigRejected") and "AvailableResource:" in condition["message"]
    return [] if told else [f"refused: the node does not say so, but {found[0]} {found[1]}"]
