"""The pages about agent and objects of policies say what is so: examples are run, tables are held against code.

Addresses, ages, times and versions are others in each run; everything else is compared to the letter.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from interpose.core.topology.synthetic import parse_text
from interpose.kube.agent.config_kinds import ConfigKind
from interpose.kube.agent.report import CONDITION
from interpose.kube.client.api import CONFIG_MAPS
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.fakenode import FakeNode, PlainCgroups
from interpose.testing.serve import serve_runtime
from tests.support.apiserver.background import background
from tests.support.apiserver.server import ApiServer
from tests.support.kube.agent_stack import MAP, Agent
from tests.support.lab.relay import Relay, program
from tests.support.policy.sysfs_tree import write_sysfs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/agent.md").read_text()
OBJECTS_PAGE = (ROOT / "docs/policy-objects.md").read_text()
EXAMPLE = re.compile(r"^```\n\$ ([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = EXAMPLE.findall(PAGE)
# Those of files are run with the pages about configuration.
OBJECT_EXAMPLES = [
    found
    for found in EXAMPLE.findall(OBJECTS_PAGE)
    if not found[0].startswith(("interpose config", "interpose simulate"))
]
NODE_OF_PAGE = "node-1"
MACHINE = "1 socket x 4 cores x 2 threads"
CHANGES = ("apply", "label", "patch")  # words of commands that are run once; others are repeated until they fit
# What differs from run to run.
VARIABLE = (
    (r"\b(\d+[dhms] ?)+(?= ago|\)| +interpose-agent|$)", "AGE"),
    (r"\bversion \d+\b", "version N"),
    (r'"resourceVersion":"\d+"', '"resourceVersion":"N"'),
    (r"(present +)\d+", r"\1N"),
    (r"\bpid \d+", "pid N"),
    (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000", "TIME"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
    (r"\b\d+ calls", "N calls"),
    (r" +", " "),
)


def plain(line: str) -> str:
    """Without what is by chance."""
    for pattern, word in VARIABLE:
        line = re.sub(pattern, word, line)
    return line.strip()


def fits(printed: str, found: str) -> bool:
    """Whether this is what the page says, where `...` stands for any lines."""
    lines = [plain(line) for line in printed.splitlines()]
    pattern = "".join("(?:.*\n)*?" if line == "..." else re.escape(line) + "\n" for line in lines)
    return re.fullmatch(pattern, "".join(f"{plain(line)}\n" for line in found.splitlines())) is not None


class Place:
    """Where the commands of the page are run: a cluster, a node with a relay, and an agent."""

    def __init__(self, folder: Path, agent: Agent, relay: Relay, kubeconfig: Path, address: str) -> None:
        self._environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(folder),
            "TZ": "UTC",
            "PATH": f"{program().parent}:{os.environ['PATH']}",
            "INTERPOSE_ADMIN_LISTEN": str(relay.admin),
            "INTERPOSE_AGENT_ADMIN_LISTEN": str(agent.admin),
            "INTERPOSE_AGENT_AGENT_SOCKET": str(agent.socket),
        }
        self._words: Mapping[str, str] = {
            f"{address} (kubeconfig {kubeconfig}, context 'test')": (
                "https://10.0.0.1:6443 (kubeconfig /etc/interpose/agent.kubeconfig, context 'node-1')"
            ),
            str(folder): "/var/run/interpose",
        }

    def run(self, command: str) -> str:
        """What a command prints, in the words of the page."""
        done = subprocess.run(
            shlex.split(command),
            cwd=ROOT,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=WAIT_LIMIT,
        )
        found = done.stdout
        for here, there in self._words.items():
            found = found.replace(here, there)
        return found


@contextmanager
def agent_of(folder: Path, kubeconfig: Path, *options: str) -> Iterator[Agent]:
    """Of the node of the page."""
    with Agent(folder, kubeconfig, node=NODE_OF_PAGE, options=("--push-interval", "0", *options)) as running:
        yield running


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
@pytest.mark.parametrize(
    ("examples", "agent_options"),
    [(EXAMPLES, ()), (OBJECT_EXAMPLES, ("--config-sources", "BalloonsPolicy,ConfigMap"))],
    ids=["agent", "policy-objects"],
)
async def test_the_examples_print_what_the_page_says(
    scratch: Path, examples: list[tuple[str, str]], agent_options: tuple[str, ...]
) -> None:
    """All of them, in their order, on a fake node with relay and agent."""
    node = FakeNode(PlainCgroups(scratch / "cgroups", 2, "0-1"))
    with background(ApiServer(nodes=(NODE_OF_PAGE,))) as server:
        kubeconfig = server.do(lambda one: one.kubeconfig(scratch / "kubeconfig"))
        address = server.do(lambda one: one.url)
        async with serve_runtime(scratch / "runtime.sock", node.runtime):
            write_sysfs(parse_text(MACHINE), scratch / "host")
            paths = {"config-socket": "config.sock", "state-dir": "state", "host-root": "host"}
            options = [part for flag, name in paths.items() for part in (f"--{flag}", str(scratch / name))]
            agent = agent_of(scratch, kubeconfig, *agent_options)
            with Relay(scratch, scratch / "runtime.sock", options) as relay, agent as running:
                place = Place(scratch, running, relay, kubeconfig, address)
                for command, printed in examples:
                    await shows(place, command, printed)


async def shows(place: Place, command: str, printed: str) -> None:
    """Run a command; one that only looks is repeated until the node has got so far."""
    found = place.run(command)
    if not set(shlex.split(command)) & set(CHANGES):

        def again() -> bool:
            nonlocal found
            found = found if fits(printed, found) else place.run(command)
            return fits(printed, found)

        with suppress(AssertionError):  # below, with what was found
            await eventually(again, command)
    assert fits(printed, found), f"{command}\n{found}"


def test_there_are_examples() -> None:
    """They are found, and one that says something else would be."""
    assert len(EXAMPLES) >= 12
    assert len(OBJECT_EXAMPLES) >= 5
    assert fits("a  version 1 (2s ago)\n...\nc\n", "a version 33 (1m 5s ago)\nb\nc\n")
    assert not fits("a\nc\n", "a\nb\nc\n")


def test_maps_of_the_page_are_those_that_are_looked_for() -> None:
    """In their order."""
    rows = re.findall(r"^\| \d \| `([^`]+)` \|", PAGE, re.MULTILINE)
    named = ConfigKind(resource=CONFIG_MAPS, base=MAP).names("n", "g")
    assert [row.replace("NODE", "n").replace("GROUP", "g") for row in rows] == list(named)


def test_options_metrics_and_reasons_of_the_page_exist() -> None:
    """Each is in the reference or in the code."""
    flags = (ROOT / "docs/reference/flags.md").read_text()
    known = set(re.findall(r"--[a-z][a-z-]+", flags)) | {"--type", "--for"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) - known == set()
    metrics = (ROOT / "docs/reference/metrics.md").read_text()
    assert [name for name in set(re.findall(r"interpose_agent_\w+", PAGE)) if f"`{name}`" not in metrics] == []
    assert f"`{CONDITION}`" in PAGE
