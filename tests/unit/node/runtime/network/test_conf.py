"""CNI configurations."""

import json
from typing import Any

import pytest

from interpose.node.runtime.network.conf import as_document, at_least, candidates, parse, plugin_input


def _text(**fields: Any) -> str:
    return json.dumps({"name": "net", "cniVersion": "0.4.0", **fields})


def test_files_in_their_order() -> None:
    """By name; others and hidden ones are none."""
    assert candidates(["20-b.conf", "10-a.conflist", "x.txt", ".10.conf", "30.json"]) == [
        "10-a.conflist",
        "20-b.conf",
        "30.json",
    ]


def test_one_plugin_and_several() -> None:
    """One is a list of one."""
    one = parse(_text(type="ptp"), "f")
    assert [plugin["type"] for plugin in one.plugins] == ["ptp"]
    several = parse(_text(plugins=[{"type": "ptp"}, {"type": "portmap"}]), "f")
    assert [plugin["type"] for plugin in several.plugins] == ["ptp", "portmap"]
    assert (several.name, several.version, several.file) == ("net", "0.4.0", "f")


def test_no_version_is_the_oldest() -> None:
    """As the standard has it."""
    assert parse('{"name": "n", "type": "ptp"}', "f").version == "0.1.0"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "f: no JSON:"),
        ("[]", "f: no JSON object"),
        (_text(plugins=[]), "f: plugins"),
        (_text(plugins={}), "f: plugins"),
        (_text(type="ptp", name=""), "f: name: ''"),
        (_text(type="ptp", name="../x"), "f: name: '../x'"),
        (_text(type="ptp", cniVersion="new"), "f: cniVersion: 'new'"),
        (_text(type="ptp", cniVersion=1), "f: cniVersion: 1"),
        (_text(plugins=[{"type": "a"}, {}]), r"f: plugins\[1\].type: None"),
        (_text(plugins=["x"]), r"f: plugins\[0\].type: None"),
        (_text(type="../../bin/sh"), r"plugins\[0\].type: '../../bin/sh'"),
    ],
)
def test_what_is_none(text: str, problem: str) -> None:
    """File, key and value are named."""
    with pytest.raises(ValueError, match=problem):
        parse(text, "f")


def test_it_survives_the_disk() -> None:
    """What is written is what was read."""
    network = parse(_text(plugins=[{"type": "ptp", "x": 1}]), "f")
    assert parse(json.dumps(as_document(network)), "f") == network


def test_versions_are_numbers() -> None:
    """Not texts."""
    assert at_least("0.10.0", (0, 4, 0))
    assert not at_least("0.3.1", (0, 4, 0))


def test_what_a_plugin_reads() -> None:
    """Name and version of the network, only what it can use and what there is, and the result before."""
    capable = {"type": "portmap", "capabilities": {"portMappings": True, "dns": False, "bandwidth": True}}
    network = parse(_text(plugins=[capable]), "f")
    offered = {"portMappings": [1], "dns": {"servers": ["s"]}, "bandwidth": {}}
    found = plugin_input(network, network.plugins[0], offered, {"ips": []})
    assert found == {
        **capable,
        "name": "net",
        "cniVersion": "0.4.0",
        "runtimeConfig": {"portMappings": [1]},
        "prevResult": {"ips": []},
    }


def test_a_plugin_that_can_nothing() -> None:
    """Also one that says nonsense about it."""
    network = parse(_text(type="ptp", capabilities=["x"]), "f")
    assert set(plugin_input(network, network.plugins[0], {"dns": {"a": 1}}, None)) == {
        *("name", "cniVersion", "type", "capabilities"),
    }
