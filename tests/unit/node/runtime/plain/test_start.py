"""Namespaces of a bundle."""

from typing import Any

import pytest

from interpose.node.runtime.plain.start import PlainStartError, namespaces_of_process, parse_namespaces

NET, PID, MOUNT = 0x40000000, 0x20000000, 0x00020000


def bundle(*namespaces: dict[str, str]) -> dict[str, Any]:
    """A configuration with these namespaces."""
    return {"linux": {"namespaces": list(namespaces)}}


def test_those_with_a_file_are_joined_the_others_made() -> None:
    """A cgroup namespace is passed over: nothing is hidden by it that we show."""
    config = bundle({"type": "network", "path": "/n"}, {"type": "pid"}, {"type": "mount"}, {"type": "cgroup"})

    assert parse_namespaces(config) == ([("/n", NET)], PID | MOUNT)


def test_a_bundle_without_namespaces() -> None:
    """Has none."""
    assert parse_namespaces({}) == ([], 0)


def test_a_kind_we_do_not_have_is_refused() -> None:
    """By name: nothing that was asked for is left out in silence."""
    with pytest.raises(PlainStartError, match="'user' is not supported"):
        parse_namespaces(bundle({"type": "user"}))


def test_mounts_are_joined_last() -> None:
    """The files of the others are found by the mounts that we have."""
    assert namespaces_of_process(7)[-1] == ("/proc/7/ns/mnt", MOUNT)
