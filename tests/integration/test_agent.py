"""The agent as a process between an API server and a relay: what the cluster says is what the node has, and is told."""

import asyncio
import json
import signal
import stat
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from interpose.resmgr.config.server import ConfigOutcome
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.fakeruntime import FakeRuntime
from tests.support.kube.agent_stack import MAP, QUICK, Agent, Cluster, cluster, fetch
from tests.support.lab.processes import Child
from tests.support.lab.relay import program
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack

TWO = {"policy": "Active: static\nReservedResources: {CPU: 2}\n"}
THREE = {"policy": "Active: static\nReservedResources: {CPU: 3}\n"}
WRONG = {"policy": "Active: static\nReservedResources: {CPU: 99}\n"}
SLO = {"resourceQOSStrategy": {"lsClass": {"cpuQOS": {"enable": True, "groupIdentity": 2}}}}


@pytest.fixture
async def here(scratch: Path) -> AsyncIterator[Cluster]:
    """A cluster with one node."""
    async with cluster(scratch) as running:
        yield running


@pytest.fixture
def agent(scratch: Path, here: Cluster) -> Iterator[Agent]:
    """An agent that was not started yet; it is stopped at the end."""
    made = Agent(scratch, here.kubeconfig, options=QUICK)
    try:
        yield made
    finally:
        made.__exit__()


class Relays:
    """The relay of the node, which can go and come back with what it remembers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runtime = FakeRuntime()
        self._running = AsyncExitStack()
        self._stack: PolicyStack | None = None

    @property
    def stack(self) -> PolicyStack:
        """The one that runs."""
        assert self._stack is not None
        return self._stack

    async def start(self) -> None:
        """Begin."""
        self._stack = await self._running.enter_async_context(
            policy_stack(
                self._folder,
                machine("n4c16"),
                runtime=self._runtime,
                config_socket=str(self._folder / "config.sock"),
            )
        )

    async def stop(self) -> None:
        """End."""
        await self._running.aclose()
        self._stack = None

    @property
    def reserved(self) -> int:
        """How many CPUs are kept, by the configuration in force; 0 without a policy."""
        return len(self.stack.tracker.allocations.policy.state.pools.get("reserved", ()))

    def outcomes(self, outcome: ConfigOutcome) -> int:
        """How often configurations of the agent came to this."""
        server = self.stack.policy._server
        return 0 if server is None else server.outcomes[outcome]


@pytest.fixture
async def relays(scratch: Path) -> AsyncIterator[Relays]:
    """The relay, running."""
    made = Relays(scratch)
    await made.start()
    yield made
    await made.stop()


async def soon(condition: Any, what: str) -> None:
    """Wait, as long as a busy machine needs."""
    await eventually(condition, what)


def pushes(agent: Agent) -> dict[str, int]:
    """How often something was sent, by what became of it."""
    counts: dict[str, int] = agent.status()["configuration"]["pushes"]
    return counts


# -- the way of a configuration


async def test_an_edit_reaches_the_relay_and_the_result_the_cluster(
    here: Cluster, agent: Agent, relays: Relays
) -> None:
    """A ConfigMap appears and is edited: the policy changes; condition, annotation and events tell."""
    agent.start()
    here.configure(TWO)
    await soon(lambda: relays.reserved == 2, "two reserved CPUs")
    told = await here.reported("ConfigApplied")
    assert told["status"] == "True"
    version = here.configure(THREE)["metadata"]["resourceVersion"]
    await soon(lambda: relays.reserved == 3, "three reserved CPUs")
    await soon(lambda: here.annotation["resourceVersion"] == version, "the annotation to name the version")
    assert here.annotation["source"] == f"kube-system/{MAP}"
    await soon(lambda: here.reasons.count("ConfigApplied") >= 1, "an event")


async def test_a_refused_edit_is_told_and_what_was_good_stays(here: Cluster, agent: Agent, relays: Relays) -> None:
    """The reason is in condition, event and probe; the relay goes on with what it had."""
    here.configure(TWO)
    agent.start()
    await soon(lambda: relays.reserved == 2, "two reserved CPUs")
    here.configure(WRONG)
    told = await here.reported("ConfigRejected")
    assert told["status"] == "False"
    assert "99" in told["message"]
    assert relays.reserved == 2
    await soon(lambda: "ConfigRejected" in here.reasons, "an event")
    probed = await asyncio.to_thread(agent.probe, "--query", "config-status")
    assert probed.returncode == 1
    assert "99" in probed.stderr
    assert (await asyncio.to_thread(agent.probe)).returncode == 0  # it lives
    here.configure(TWO)
    await here.reported("ConfigApplied")
    probed = await asyncio.to_thread(agent.probe, "--query", "config-status")
    assert (probed.returncode, probed.stderr) == (0, "")


async def test_the_map_of_the_node_wins_as_a_whole(here: Cluster, agent: Agent, relays: Relays) -> None:
    """It counts while it is there, then the plain one does again."""
    here.configure(TWO)
    agent.start()
    await soon(lambda: relays.reserved == 2, "the plain map")
    here.configure(THREE, f"{MAP}.node.n1")
    await soon(lambda: relays.reserved == 3, "the map of the node")
    here.withdraw(f"{MAP}.node.n1")
    await soon(lambda: relays.reserved == 2, "the plain map again")
    counted = [one["name"] for one in agent.status()["config_maps"] if one["counts"]]
    assert counted == [MAP]


async def test_the_group_is_followed_when_the_label_changes(here: Cluster, agent: Agent, relays: Relays) -> None:
    """Another label, another map; without a label that of no group."""
    here.configure(TWO, f"{MAP}.default")
    here.configure(THREE, f"{MAP}.group.gold")
    agent.start()
    await soon(lambda: relays.reserved == 2, "the default map")
    here.label(group="gold")
    await soon(lambda: relays.reserved == 3, "the map of the group")
    names = [one["name"] for one in agent.status()["config_maps"]]
    assert names == [f"{MAP}.node.n1", f"{MAP}.group.gold", f"{MAP}.default", MAP]
    here.label(group="iron")
    await soon(lambda: relays.reserved == 2, "the default map, as there is none for this group")
    assert agent.status()["group"] == "iron"


async def test_a_configuration_that_is_gone_is_withdrawn(here: Cluster, agent: Agent, relays: Relays) -> None:
    """After the grace the relay is back at its own settings."""
    here.configure(TWO)
    agent.start()
    await soon(lambda: relays.reserved == 2, "the configuration")
    here.withdraw()
    await here.reported("ConfigWithdrawn")
    assert relays.reserved == 0


# -- others are away


async def test_a_map_that_is_replaced_is_never_missed(here: Cluster, agent: Agent, relays: Relays) -> None:
    """Deleted and created again, as `kubectl replace --force` does it: the one below it is not in force in between."""
    here.configure(TWO, f"{MAP}.node.n1")
    here.configure(THREE)
    agent.start("--missing-grace", "60s")
    await here.reported("ConfigApplied")
    here.withdraw(f"{MAP}.node.n1")
    own = f"kube-system/{MAP}.node.n1"
    await soon(lambda: agent.status()["config_maps"][0]["state"] == "missing", "the agent to know")
    assert agent.status()["configuration"]["map"]["name"] == own
    here.configure(TWO, f"{MAP}.node.n1")
    await soon(lambda: agent.status()["config_maps"][0]["state"] == "present", "the agent to know")
    assert agent.status()["configuration"]["map"]["name"] == own
    assert pushes(agent) == {"accepted": 1}


async def test_a_map_that_may_not_be_read_any_more_is_not_taken_for_missing(scratch: Path) -> None:
    """Also by an agent that starts then: the Node says by which map it goes. With the right everything goes on."""
    relays = Relays(scratch)
    await relays.start()
    async with cluster(scratch, tokens={"secret": "agent"}) as here:
        agent = Agent(scratch, here.kubeconfig, options=QUICK)
        try:
            here.configure(TWO, f"{MAP}.node.n1")
            here.configure(THREE)
            await asyncio.to_thread(agent.start)
            await here.reported("ConfigApplied")
            await soon(lambda: here.annotation, "the annotation")
            agent.stop()
            verbs = ["get", "list", "watch", "patch", "create"]
            nodes = {"apiGroups": [""], "resources": ["nodes", "nodes/status", "events"], "verbs": verbs}
            maps = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [MAP], "verbs": verbs}
            here.server.access.restrict("agent", [nodes, maps])
            await asyncio.to_thread(agent.start)
            said = await here.reported("ConfigForbidden")
            assert said["status"] == "Unknown"
            assert f"ConfigMap kube-system/{MAP}.node.n1 may not be read" in said["message"]
            assert relays.reserved == 2
            assert pushes(agent) == {}
            own = {**maps, "resourceNames": [f"{MAP}.node.n1"]}
            here.server.access.restrict("agent", [own])
            here.configure(WRONG)  # of no interest
            agent.stop()
            await asyncio.to_thread(agent.start)
            await here.reported("ConfigApplied")
            assert relays.reserved == 2
        finally:
            await asyncio.to_thread(agent.__exit__)
            await relays.stop()


async def test_an_api_server_that_restarts_is_followed_again(here: Cluster, agent: Agent, relays: Relays) -> None:
    """What is in force stays while it is away; an edit made meanwhile arrives, with and without history."""
    here.configure(TWO)
    agent.start()
    await soon(lambda: relays.reserved == 2, "the configuration")
    for lose, data, count in ((False, THREE, 3), (True, TWO, 2)):
        await here.server.stop()
        here.configure(data)
        assert agent.child.running
        await here.server.start()
        if lose:
            here.server.faults.expire_history()
        await soon(lambda count=count: relays.reserved == count, f"{count} reserved CPUs")
    assert relays.outcomes(ConfigOutcome.REJECTED) == 0


async def test_a_watch_that_is_too_old_begins_anew(here: Cluster, agent: Agent, relays: Relays) -> None:
    """410 Gone: everything is listed again, nothing is pushed for it."""
    here.configure(TWO)
    agent.start()
    await here.reported("ConfigApplied")
    here.server.faults.expire_history()
    here.server.faults.cut_watches(mid_line=True)
    here.configure(THREE)
    await soon(lambda: relays.outcomes(ConfigOutcome.ACCEPTED) == 2, "the edit to be accepted")
    assert relays.reserved == 3
    assert relays.outcomes(ConfigOutcome.UNCHANGED) == 0


async def test_a_relay_that_comes_back_is_told_again(here: Cluster, agent: Agent, relays: Relays) -> None:
    """It may have forgotten; one that has not says so, and nothing is applied twice."""
    here.configure(TWO)
    agent.start()
    await soon(lambda: relays.reserved == 2, "the configuration")
    await relays.stop()
    here.configure(THREE)
    await relays.start()
    await soon(lambda: relays.reserved == 3, "the edit made meanwhile")
    await relays.stop()
    await relays.start()
    await soon(lambda: relays.outcomes(ConfigOutcome.UNCHANGED) == 1, "the push to the relay that is back")
    assert relays.outcomes(ConfigOutcome.ACCEPTED) == 0
    assert relays.reserved == 3


async def test_an_agent_that_restarts_applies_and_reports_nothing_twice(
    here: Cluster, agent: Agent, relays: Relays
) -> None:
    """Killed and started again: the relay has it already, and the cluster knows."""
    here.configure(TWO)
    agent.start()
    await here.reported("ConfigApplied")
    await soon(lambda: here.annotation is not None and "ConfigApplied" in here.reasons, "all reports")
    await soon(lambda: not agent.status()["reports"]["pending"], "no report to be pending")
    writes, accepted = here.writes(), relays.outcomes(ConfigOutcome.ACCEPTED)
    agent.kill()
    agent.start()
    await soon(lambda: agent.status()["configuration"]["state"] == "applied", "the agent to know that it is applied")
    await soon(lambda: agent.status()["node_object"]["state"] == "present", "the Node to be seen")
    assert agent.status()["reports"]["pending"] == []
    assert (here.writes(), relays.outcomes(ConfigOutcome.ACCEPTED)) == (writes, accepted)
    assert relays.outcomes(ConfigOutcome.UNCHANGED) == 1


async def test_without_anybody_it_waits(scratch: Path, here: Cluster, agent: Agent) -> None:
    """No API server, no relay: it runs, lives, is not ready and says why."""
    await here.server.stop()
    agent.start()
    await soon(lambda: agent.status()["api"]["error"], "the API server to be missed")
    assert (await asyncio.to_thread(agent.probe)).returncode == 0
    status = agent.status()
    assert status["relay"]["up"] is False
    assert status["group"] is None
    assert status["configuration"]["state"] == "waiting"
    assert "not known" in status["configuration"]["problem"]
    assert agent.child.running
    await here.server.start()
    await soon(lambda: agent.status()["api"]["up"], "the API server to be found")


async def test_a_new_token_is_used(scratch: Path) -> None:
    """The file with the token is replaced, as kubelets do; the old one is no longer good, and nobody notices."""
    async with cluster(scratch, tokens={"old": "agent"}) as here:
        token = scratch / "token"
        token.write_text("old")
        said = json.loads(here.kubeconfig.read_text())
        said["users"][0]["user"] = {"tokenFile": str(token)}
        here.kubeconfig.write_text(json.dumps(said))
        with Agent(scratch, here.kubeconfig, options=QUICK) as agent:
            await soon(lambda: agent.status()["node_object"]["state"] == "present", "the Node to be seen")
            token.with_suffix(".new").write_text("new")
            token.with_suffix(".new").replace(token)
            here.server.faults.rotate_token("old", "new")
            here.server.faults.cut_watches()
            here.label(group="gold")
            await soon(lambda: agent.status()["group"] == "gold", "the label to be seen")
            assert agent.status()["api"]["up"]


# -- the hook server's file


async def test_the_hook_server_is_fed(here: Cluster, agent: Agent) -> None:
    """The NodeSLO and the labels of the node come together in one file; one that is wrong changes nothing."""
    agent.start()
    here.rule(SLO)
    here.label(zone="a")

    def document() -> Any:
        return json.loads(agent.state.read_text()) if agent.state.exists() else {}

    await soon(lambda: document().get("nodeSLO", {}).get("spec") == SLO, "the NodeSLO in the file")
    await soon(lambda: document()["node"]["labels"].get("zone") == "a", "the label in the file")
    assert agent.state.stat().st_mode & 0o777 == 0o600
    before = agent.state.read_text()
    here.rule({"resourceQOSStrategy": {"lsClass": {"cpuQOS": {"enable": True, "groupIdentity": 99}}}})
    await soon(lambda: agent.status()["nodeslo"]["state"] == "rejected", "the NodeSLO to be rejected")
    assert "groupIdentity" in "; ".join(agent.status()["nodeslo"]["problems"])
    assert agent.state.read_text() == before
    await soon(lambda: "NodeSLORejected" in here.reasons, "an event")


# -- the process


async def test_it_ends_when_told_and_leaves_no_socket(here: Cluster, agent: Agent) -> None:
    """SIGTERM: exit code 0. SIGHUP before that is ignored."""
    agent.start()
    assert stat.S_IMODE(agent.socket.stat().st_mode) == 0o600
    agent.child.signal(signal.SIGHUP)
    await soon(lambda: "SIGHUP was ignored" in agent.child.log_tail(), "the log to tell of SIGHUP")
    await asyncio.to_thread(agent.stop)
    assert not agent.socket.exists()
    assert not agent.admin.exists()
    assert "Task failed" not in agent.child.log_tail()


async def test_a_second_agent_says_who_is_there(here: Cluster, agent: Agent) -> None:
    """It ends at once and disturbs nobody."""
    agent.start()
    argv = agent.argv("--admin-listen", "none")
    ended = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, timeout=WAIT_LIMIT)
    assert ended.returncode == 1
    assert f"{agent.child.pid}" in ended.stderr
    assert agent.status()["pid"] == agent.child.pid


async def test_metrics_can_be_read_from_outside(here: Cluster, agent: Agent, unused_tcp_port: int) -> None:
    """On an address of their own, with health; nothing else is there."""
    address = f"127.0.0.1:{unused_tcp_port}"
    agent.start("--metrics-listen", address)
    await soon(lambda: agent.status()["node_object"]["state"] == "present", "the Node to be seen")
    status, text = await asyncio.to_thread(fetch, f"{address}/metrics")
    assert status == 200
    assert "interpose_agent_api_up 1.0" in text
    assert 'interpose_agent_config_state{state="waiting"} 1.0' in text
    assert "interpose_collector_failures 0.0" in text
    assert (await asyncio.to_thread(fetch, f"{address}/livez"))[0] == 200
    for path in ("/v1/status", "/v1/config", "/v1/log-level"):
        assert (await asyncio.to_thread(fetch, address + path))[0] == 404


async def test_the_old_name_works(scratch: Path, here: Cluster, relays: Relays) -> None:
    """`cri-resmgr-agent` with its own flags and NODE_NAME; its probe finds it well."""
    sockets = ["-agent-socket", str(scratch / "a.sock"), f"-cri-resmgr-socket={scratch / 'config.sock'}"]
    argv = [str(program("cri-resmgr-agent")), "-kubeconfig", str(here.kubeconfig), *sockets, "-v", "2"]
    env = {"NODE_NAME": "n1", "INTERPOSE_AGENT_ADMIN_LISTEN": "none"}
    here.configure(TWO)
    with Child(argv, log=scratch / "old.log", env=env) as child:
        child.wait_listening(scratch / "a.sock")
        await soon(lambda: relays.reserved == 2, "the configuration")
        probe = [str(program("cri-resmgr-agent-probe")), "-agent-socket", str(scratch / "a.sock")]
        for query in ([], ["-query", "config-status"]):
            asked = await asyncio.to_thread(
                subprocess.run, [*probe, *query], capture_output=True, text=True, timeout=30
            )
            assert (asked.returncode, asked.stderr) == (0, "")
        assert child.stop() == 0
    asked = await asyncio.to_thread(subprocess.run, probe, capture_output=True, text=True, timeout=30)
    assert asked.returncode == 1
    assert "a.sock" in asked.stderr


async def test_what_a_person_sees(scratch: Path, here: Cluster, agent: Agent, relays: Relays) -> None:
    """`interpose agent status` says which map counts and that it is in force."""
    here.configure(TWO)
    agent.start()
    await here.reported("ConfigApplied")
    argv = [str(program()), "agent", "status", "--admin", str(agent.admin)]
    shown = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, timeout=WAIT_LIMIT)
    assert shown.returncode == 0, shown.stderr
    assert "Configuration applied" in shown.stdout
    assert f"-> kube-system/{MAP} " in " ".join(shown.stdout.split()) + " "
