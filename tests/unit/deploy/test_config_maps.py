"""samples/configmaps: what the agent is given in the cluster, read as relays read it."""

from pathlib import Path

import pytest

from interpose.config.agent.settings import AgentSettings
from interpose.config.documents.policy import read_config_map
from interpose.core.policy.static.options import StaticOptions
from interpose.kube.agent.config_kinds import ConfigKind
from interpose.kube.client.api import CONFIG_MAPS
from tests.support.kube.kube_schema import manifest_problems
from tests.support.kube.plain_documents import read_documents

SAMPLES = Path(__file__).parents[3] / "samples/configmaps"
NAMES = (
    "cri-resmgr-config.node.node-1",
    "cri-resmgr-config.group.batch",
    "cri-resmgr-config.default",
    "cri-resmgr-config",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_a_map_that_relays_accept(name: str) -> None:
    """Its file is called like the map; nothing in it is without effect."""
    [found] = read_documents(SAMPLES / f"{name}.yaml")

    assert manifest_problems(found) == []
    assert (found["metadata"]["name"], found["metadata"]["namespace"]) == (name, AgentSettings().config.namespace)
    assert read_config_map(found["data"], "node-1").warnings == ()


def test_the_samples_are_the_maps_that_agents_look_for() -> None:
    """One of each, in the order in which they count."""
    assert ConfigKind(resource=CONFIG_MAPS, base=AgentSettings().config.map).names("node-1", "batch") == NAMES
    assert {path.stem for path in SAMPLES.glob("*.yaml")} == set(NAMES)


def test_a_node_has_its_own_options() -> None:
    """What is for one node alone wins on that node, and only there."""
    [found] = read_documents(SAMPLES / "cri-resmgr-config.yaml")
    relaxed = {}
    for node in ("node-1", "node-2"):
        options = read_config_map(found["data"], node).options["static"]
        assert isinstance(options, StaticOptions)
        relaxed[node] = options.relaxed_isolation

    assert relaxed == {"node-1": False, "node-2": True}


def test_a_directory_makes_a_map_as_well() -> None:
    """`kubectl create configmap --from-file DIR`: file names are keys, contents texts."""
    data = {path.name: path.read_text() for path in (SAMPLES / "static-test").iterdir()}
    options = read_config_map(data, "node-1").options["static"]

    assert data.keys() == {"policy.static"}
    assert isinstance(options, StaticOptions)
    assert options.relaxed_isolation
