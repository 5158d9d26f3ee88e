"""The demo's node is one that all programs take."""

import os
from pathlib import Path

import pytest

from interpose.config.agent_table import AGENT_SETTINGS
from interpose.config.document import read_document
from interpose.config.hookserver import HOOKSERVER_SETTINGS
from interpose.config.table import RELAY_SETTINGS
from interpose.model.cgroup import CRI_FIELDS, Level
from interpose.runtimehooks.nodedocument import parse_node_document
from interpose.testing.demoparts import AFTER, BEFORE, POD_VALUES, PODS, Places, edit, forget_settings


def test_every_setting_exists() -> None:
    """A name that nobody reads would send a program to the places of a real node."""
    known = {setting.env for setting in (*RELAY_SETTINGS, *HOOKSERVER_SETTINGS, *AGENT_SETTINGS)}

    assert Places(Path("/demo")).environment().keys() <= known


def test_every_path_is_in_the_folder() -> None:
    """Nothing of the machine is touched."""
    assert all(path.startswith("/demo/") for path in Places(Path("/demo")).environment().values())


def test_the_policy_is_there_at_once(tmp_path: Path) -> None:
    """A hook server finds it when it starts."""
    places = Places(tmp_path)
    places.prepare()

    assert places.nodeslo.read_text() == BEFORE


def test_an_edit_leaves_one_file(tmp_path: Path) -> None:
    """Whoever looks sees the old text or the new one."""
    path = tmp_path / "nodeslo.yaml"
    edit(path, BEFORE)
    edit(path, AFTER)

    assert path.read_text() == AFTER
    assert [one.name for one in tmp_path.iterdir()] == ["nodeslo.yaml"]


@pytest.mark.parametrize("text", [BEFORE, AFTER])
def test_policies_can_be_read(text: str, tmp_path: Path) -> None:
    """By the reader of real ones."""
    path = tmp_path / "nodeslo.yaml"
    edit(path, text)

    assert parse_node_document(read_document(str(path)), str(path)).slo is not None


def test_pods_have_the_annotations_of_their_class() -> None:
    """The sandbox has labels and annotations, the container what Kubernetes knows of its resources."""
    for pod in PODS:
        sandbox, container = pod.configs()
        assert sandbox.labels["koordinator.sh/qosClass"] == pod.qos
        assert dict(sandbox.annotations) == pod.annotations
        assert container.linux.resources == sandbox.linux.resources == pod.resources


def test_values_that_cri_does_not_carry_are_of_pods() -> None:
    """A container has nothing that it could not have from the start."""
    assert all(
        due.parameter in CRI_FIELDS for dues in POD_VALUES.values() for due in dues if Level.CONTAINER in due.levels
    )


def test_settings_of_the_shell_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are for other relays."""
    monkeypatch.setenv("INTERPOSE_HOOKSERVER_CPUSET", "false")
    monkeypatch.setenv("OTHER", "1")
    forget_settings()

    assert "INTERPOSE_HOOKSERVER_CPUSET" not in os.environ
    assert os.environ["OTHER"] == "1"
