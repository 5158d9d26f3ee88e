"""What plugins answer."""

from typing import Any

import pytest

from interpose.node.runtime.network.results import error_message, net_result, parse_result


@pytest.mark.parametrize(
    ("document", "ip", "additional"),
    [
        ({"ip4": {"ip": "10.1.0.2/24"}, "ip6": {"ip": "fd00::2/64"}}, "10.1.0.2", ("fd00::2",)),
        ({"ips": [{"version": "4", "address": "10.1.0.2/24"}]}, "10.1.0.2", ()),
        ({"ips": [{"address": "fd00::2/64"}, {"address": "10.1.0.2/24"}]}, "10.1.0.2", ("fd00::2",)),
        (
            {
                "interfaces": [{"name": "veth"}, {"name": "net1", "sandbox": "/n"}, {"name": "eth0", "sandbox": "/n"}],
                "ips": [
                    {"address": "10.9.0.1/24", "interface": 0},
                    {"address": "10.8.0.1/24", "interface": 1},
                    {"address": "10.1.0.2/24", "interface": 2},
                ],
            },
            "10.1.0.2",
            (),
        ),
        (
            {
                "interfaces": [{"name": "other", "sandbox": "/n"}, "odd"],
                "ips": [{"address": "10.1.0.2/24", "interface": 0}, {"address": "10.1.0.2/24"}],
            },
            "10.1.0.2",
            (),
        ),
    ],
)
def test_addresses_of_all_versions(document: dict[str, Any], ip: str, additional: tuple[str, ...]) -> None:
    """IPv4 first, the pod's own interface only, none twice."""
    found = net_result(document)
    assert (found.ip, found.additional, found.document) == (ip, additional, document)


@pytest.mark.parametrize("document", [{}, {"ips": []}, {"ips": ["x"]}, {"ips": [{"address": "here"}]}, {"ip4": {}}])
def test_results_without_an_address(document: dict[str, Any]) -> None:
    """A pod without one is none."""
    with pytest.raises(ValueError):
        net_result(document)


def test_documents() -> None:
    """Nothing is an empty one."""
    assert parse_result(" \n") == {}
    assert parse_result('{"a": 1}') == {"a": 1}
    with pytest.raises(ValueError, match="no JSON object"):
        parse_result("[]")


@pytest.mark.parametrize(
    ("stdout", "stderr", "words"),
    [
        ('{"code": 7, "msg": "no room"}', "x", "no room"),
        ('{"code": 7, "msg": "no room", "details": "in the inn"}', "", "no room: in the inn"),
        ("{}", "panic\n", "panic"),
        ("not JSON", "", "not JSON"),
        ("", "", "it said nothing"),
    ],
)
def test_words_of_an_error(stdout: str, stderr: str, words: str) -> None:
    """Of the document, else whatever was printed."""
    assert error_message(stdout, stderr) == words
