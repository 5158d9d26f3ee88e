"""Bundles made by hand."""

import json
from pathlib import Path

import pytest

from tests.support.node.bundles import busybox_rootfs, process, write_bundle


def test_a_bundle_names_process_root_and_namespaces(tmp_path: Path) -> None:
    """What is given is in config.json; a namespace with a file is joined, one without is made."""
    bundle = write_bundle(
        tmp_path / "b", tmp_path / "root", process("true"), cgroup="/x/y", namespaces={"network": "/proc/7/ns/net"}
    )

    config = json.loads((bundle / "config.json").read_text())

    assert config["process"]["args"] == ["true"]
    assert config["root"]["path"] == str(tmp_path / "root")
    assert {"type": "network", "path": "/proc/7/ns/net"} in config["linux"]["namespaces"]
    assert {"type": "pid"} in config["linux"]["namespaces"]


def test_a_rootfs_needs_busybox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its absence is named."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(FileNotFoundError, match="busybox"):
        busybox_rootfs(tmp_path / "root")
