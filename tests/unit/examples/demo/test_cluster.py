"""The demo's cluster says what the demo is about."""

from pathlib import Path

import pytest

from examples.demo.cluster import (
    KEY,
    NARROW,
    NARROWED,
    NODE,
    SLIP,
    WIDE,
    condition_text,
    demo_cluster,
    publish,
    wrong_condition,
)
from examples.demo.report import EDITED
from interpose.config.documents.policy import read_config_map
from interpose.errors import ConfigError
from interpose.kube.client.api import CONFIG_MAPS

REFUSED = {
    "type": "InterposeConfigured",
    "status": "False",
    "reason": "ConfigRejected",
    "message": "line 2: AvailableResource: is not a known key",
}


@pytest.mark.parametrize("text", [WIDE, NARROW])
def test_a_version_is_one_that_a_relay_takes(text: str) -> None:
    """Both differ in nothing but the CPUs."""
    read_config_map({KEY: text}, NODE)
    assert WIDE.partition("CPU:")[0] == NARROW.partition("CPU:")[0]


def test_the_slip_is_refused() -> None:
    """With the words that the demo looks for."""
    with pytest.raises(ConfigError, match="AvailableResource: is not a known key"):
        read_config_map({KEY: SLIP}, NODE)


def test_only_those_who_share_are_moved() -> None:
    """Nothing but their CPU sets."""
    moved = {spot.pod for spot in EDITED if EDITED[spot] != NARROWED[spot]}
    assert moved == {"web", "reports"}


async def test_the_cluster_has_what_was_published_last(tmp_path: Path) -> None:
    """At first all CPUs."""
    async with demo_cluster(tmp_path / "kubeconfig") as made:
        first = made.server.get(CONFIG_MAPS, "cri-resmgr-config", namespace="kube-system")["data"]
        publish(made, NARROW)
        second = made.server.get(CONFIG_MAPS, "cri-resmgr-config", namespace="kube-system")["data"]
    assert (first, second) == ({KEY: WIDE}, {KEY: NARROW})


def test_a_refusal_is_recognised() -> None:
    """It must be about the slip."""
    assert wrong_condition(REFUSED) == []
    assert wrong_condition({**REFUSED, "message": "something else"}) != []
    assert wrong_condition({**REFUSED, "status": "True", "reason": "ConfigApplied"}) == [
        "refused: the node does not say so, but True ConfigApplied"
    ]
    assert wrong_condition({}) == ["refused: the node does not say so, but None None"]


def test_a_condition_fits_the_terminal() -> None:
    """Names are not broken."""
    lines = condition_text({**REFUSED, "message": "ConfigMap kube-system/cri-resmgr-config was rejected"}, 60)
    assert max(map(len, lines)) <= 60
    assert any("kube-system/cri-resmgr-config" in line for line in lines)
