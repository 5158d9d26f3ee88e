"""How the parts of an agent are joined; what they do together is in tests/integration."""

import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from interpose._pb.resmgr_agent_pb2 import JsonPatch, PatchNodeRequest
from interpose.cli.agent.parts import AgentParts, report_kinds
from interpose.config.agent.settings import AgentSettings, ConfigSettings, NodeStateSettings
from interpose.core.model.kubernetes_names import PATCH_NODE
from interpose.host.unix_sockets import bind_unix
from interpose.kube.agent.config_choice import ChoiceResult, ConfigChoice, SelectedConfig
from interpose.kube.agent.config_kinds import ConfigSource
from interpose.kube.client.access import Access
from interpose.net.grpc.handlers import Unary
from interpose.net.grpc.status import RpcError
from interpose.net.http.address import Server

ACCESS = Access(server=Server(scheme="http", host="127.0.0.1", port=1), source="test")


@dataclass
class Context:
    """A call without limits."""

    path: bytes = PATCH_NODE
    metadata: tuple[tuple[bytes, bytes], ...] = ()
    deadline: float | None = None


def settings(folder: Path) -> AgentSettings:
    """All paths in one folder."""
    return AgentSettings(
        config=ConfigSettings(socket=str(folder / "c.sock")), node_state=NodeStateSettings(file=str(folder / "s.json"))
    )


async def test_what_was_not_asked_for_is_not_made(tmp_path: Path) -> None:
    """Neither a relay nor a file: then nothing is wrong with the configuration either."""
    said = settings(tmp_path)
    off = replace(said, config=replace(said.config, socket="none"), node_state=NodeStateSettings(file="none"))
    parts = AgentParts(off, "n1", ACCESS, None)
    assert (parts.relay, parts.pusher, parts.feed, parts.served) == (None, None, None, None)
    assert parts.config_problem == ""
    parts.tick()
    await parts.close()


async def test_an_api_server_counts_as_there_if_it_answered_lately(tmp_path: Path) -> None:
    """One failed request is no news; silence is."""
    parts = AgentParts(settings(tmp_path), "n1", ACCESS, None)
    assert parts.api_problem == "it has not answered yet"
    parts.api.last_error = "no route"
    assert parts.api_problem == "no route"
    ages = [parts.since_answer]
    parts.api.last_answer = time.monotonic()
    ages.append(parts.since_answer)
    assert [age is None for age in ages] == [True, False]
    assert parts.api_problem == ""
    parts.api.last_answer -= 60
    assert parts.api_problem == "no route"
    parts.api.last_error = ""
    assert parts.api_problem == ""
    await parts.close()


async def test_nothing_is_known_at_first(tmp_path: Path) -> None:
    """And that is what the probe is told."""
    parts = AgentParts(settings(tmp_path), "n1", ACCESS, None)
    assert "it is not known which configuration counts" in parts.config_problem
    assert parts._health("config-status") == parts.config_problem
    assert parts._health("") == ""
    await parts.close()


async def test_the_group_of_the_node_is_not_for_the_relay_to_set(tmp_path: Path) -> None:
    """Whatever may be changed else: it says which configuration the relay gets."""
    said = settings(tmp_path)
    said = replace(said, config=replace(said.config, group_label="example.com/group"))
    with tempfile.TemporaryDirectory(prefix="ip-") as folder:
        parts = AgentParts(said, "n1", ACCESS, bind_unix(f"{folder}/a.sock", mode=0o600))
        served = parts.served
        assert served is not None
        handler = served.service.handlers()[PATCH_NODE]
        assert isinstance(handler, Unary)
        patch = JsonPatch(op="add", path="/metadata/labels/example.com~1group", value='"x"')
        with pytest.raises(RpcError, match=r"example\.com/group says which configuration this node gets"):
            await handler.handle(PatchNodeRequest(patches=[patch]).SerializeToString(), Context())
        await parts.close()


@pytest.mark.parametrize("problem", ["", "no route"])
async def test_a_node_that_is_not_followed_is_read_anew(tmp_path: Path, problem: str) -> None:
    """Whoever asks through us gets the Node as it is now."""
    parts = AgentParts(settings(tmp_path), "n1", ACCESS, None)
    node = {"metadata": {"name": "n1"}}
    follower = parts.watches._node
    follower.known, follower.object, follower.problem = True, node, problem
    assert parts._fresh_node() == (None if problem else node)
    assert parts._observed_node() == node
    await parts.close()


async def test_the_map_that_the_node_went_by(tmp_path: Path) -> None:
    """As the agent before us noted it, until we know better."""
    parts = AgentParts(settings(tmp_path), "n1", ACCESS, None)
    node = {"metadata": {"annotations": {"interpose/config-status": '{"source": "ns/a", "state": "applied"}'}}}
    assert parts._went_by(None) is None
    assert parts._went_by(node) == "ns/a"
    assert parts.pusher is not None
    parts.pusher.consider(
        ConfigChoice(verdict=ChoiceResult.CHOSEN, chosen=SelectedConfig(source="ns/b", version="1", data={}))
    )
    assert parts._went_by(node) == "ns/b"
    await parts.close()


async def test_the_group_of_objects_is_not_for_the_relay_to_set(tmp_path: Path) -> None:
    """Under none of its labels, also while objects are not followed: they may be tomorrow."""
    with tempfile.TemporaryDirectory(prefix="ip-") as folder:
        parts = AgentParts(settings(tmp_path), "n1", ACCESS, bind_unix(f"{folder}/a.sock", mode=0o600))
        served = parts.served
        assert served is not None
        handler = served.service.handlers()[PATCH_NODE]
        assert isinstance(handler, Unary)
        for label in ("config.nri/group", "group.config.nri", "resource-policy.nri.io/group"):
            path = f"/metadata/labels/{label.replace('/', '~1')}"
            request = PatchNodeRequest(patches=[JsonPatch(op="add", path=path, value='"x"')])
            with pytest.raises(RpcError, match="says which configuration this node gets"):
                await handler.handle(request.SerializeToString(), Context())
        await parts.close()


async def test_a_status_is_reported_where_objects_are_followed(tmp_path: Path) -> None:
    """The reporter is told of those that are there, with their kind; a ConfigMap has no status."""
    said = settings(tmp_path)
    assert report_kinds(said) == ("annotation", "condition", "event")
    said = replace(said, config=replace(said.config, sources=("BalloonsPolicy", "ConfigMap")))
    assert report_kinds(said) == ("annotation", "condition", "event", "status")
    assert report_kinds(replace(said, report=("event",))) == ("event",)
    parts = AgentParts(said, "n1", ACCESS, None)
    for kind in parts.watches._configs:
        kind.group = ""
        kind.start()
    found = {"metadata": {"name": "x"}}
    for _, name, follower in parts.watches.followers:
        follower.known, follower.object = True, None if name == "node.n1" else found
    assert parts._observed_objects() == {ConfigSource("BalloonsPolicy", "kube-system", "default"): found}
    await parts.close()
