"""The demo's pods and policies are such that all programs take them."""

from pathlib import Path

import pytest

from examples.demo.parts import AFTER, BEFORE, FAILING, LATER, POD_VALUES, PODS, Asked, DemoPod, edit
from interpose.config.documents.yaml import read_document
from interpose.core.model.cgroup import CRI_FIELDS, Level
from interpose.hooks.server.node.node_document import parse_node_document
from interpose.node.pods.cri_config.container import container_resources
from interpose.node.pods.cri_config.qos import pod_qos
from interpose.node.pods.manifest.reader import read_pods
from interpose.node.pods.node_info import NodeFacts


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


@pytest.mark.parametrize("pod", PODS)
def test_manifests_say_what_the_table_says(pod: DemoPod) -> None:
    """Class, labels, annotations, and what becomes of resources in CRI."""
    (read,) = read_pods(pod.manifest, "x.yaml")
    resources = container_resources(read, read.containers[0], NodeFacts(name="n", memory=1 << 40))

    assert (read.namespace, read.name, pod_qos(read)) == ("shop", pod.name, pod.kube_qos)
    assert read.labels["koordinator.sh/qosClass"] == pod.qos
    assert dict(read.annotations) == pod.annotations
    assert Asked(*(getattr(resources, name) for name in Asked._fields)) == pod.asked


def test_the_pod_that_fails_is_one() -> None:
    """Its manifest is as good as others."""
    (read,) = read_pods(LATER[FAILING], "x.yaml")

    assert read.name == FAILING


def test_values_that_cri_does_not_carry_are_of_pods() -> None:
    """A container has nothing that it could not have from the start."""
    assert all(
        due.parameter in CRI_FIELDS for dues in POD_VALUES.values() for due in dues if Level.CONTAINER in due.levels
    )
