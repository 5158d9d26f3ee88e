"""Where registries are, as settings say or as they are called."""

import pytest

from interpose.config.documents.yaml import parse_document
from interpose.errors import ConfigError
from interpose.node.runtime.images.registry.endpoints import Registries, is_local, read_registries


def read(text: str) -> Registries:
    """The settings of a file."""
    return read_registries(parse_document(text, "file f"), "file f")


@pytest.mark.parametrize(
    ("domain", "addresses"),
    [
        ("docker.io", ["https://registry-1.docker.io:443"]),
        ("host.io", ["https://host.io:443"]),
        ("host:5000", ["https://host:5000"]),
        ("localhost:5000", ["https://localhost:5000", "http://localhost:5000"]),
        ("127.0.0.1:5000", ["https://127.0.0.1:5000", "http://127.0.0.1:5000"]),
        ("[::1]:5000", ["https://[::1]:5000", "http://[::1]:5000"]),
    ],
)
def test_without_settings_a_registry_is_where_its_name_says(domain: str, addresses: list[str]) -> None:
    """Plain HTTP on this machine only."""
    assert [str(one.server) for one in Registries().of(domain)] == addresses


def test_this_machine_has_several_names() -> None:
    """And others have not."""
    assert is_local("localhost")
    assert is_local("a.localhost")
    assert is_local("127.1.2.3")
    assert not is_local("10.0.0.1")
    assert not is_local("localhost.example")


def test_settings_name_endpoints_and_trust() -> None:
    """In their order; an entry without endpoints is about the registry itself."""
    found = read(
        """
registries:
  docker.io:
    endpoints: [https://mirror.example:5000/prefix, http://10.0.0.1]
    ca: /ca.pem
    certificate: /c.pem
    key: /k.pem
  host.io: {skip_verify: true}
"""
    )
    first, second = found.of("docker.io")
    assert (str(first.server), str(second.server)) == ("https://mirror.example:5000/prefix", "http://10.0.0.1:80")
    assert (first.ca, first.certificate, first.key, first.skip_verify) == ("/ca.pem", "/c.pem", "/k.pem", False)
    (other,) = found.of("host.io")
    assert (str(other.server), other.skip_verify) == ("https://host.io:443", True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "file f line 1: expected a group of keys, found a list"),
        ("x: 1", "file f line 1: x: is not a known key"),
        ("registries: 1", "file f line 1: registries: expected a group of keys, found a number"),
        ("registries:\n  a.io: 1", "file f line 2: registries.a.io: expected a group of keys"),
        ("registries:\n  a.io:\n    keys: 1", "registries.a.io.keys: is not a known key, did you mean key?"),
        ("registries:\n  a.io: {}\n  a.io: {}", "file f line 3: registries.a.io: is given twice"),
        ("registries:\n  a.io:\n    ca: /a\n    ca: /b", "registries.a.io.ca: is given twice, first in line 3"),
        ("registries:\n  a.io:\n    ca: [1]", "registries.a.io.ca: expected text, found a list"),
        ("registries:\n  a.io:\n    skip_verify: 1", "registries.a.io.skip_verify: expected true or false, found a"),
        ("registries:\n  a.io:\n    certificate: /x", "registries.a.io: certificate and key go together"),
        ("registries:\n  a.io:\n    endpoints: x", "registries.a.io.endpoints: expected a list"),
        ("registries:\n  a.io:\n    endpoints: []", "registries.a.io.endpoints: the list of addresses is empty"),
        ("registries:\n  a.io:\n    endpoints: [1]", "registries.a.io.endpoints[0]: expected an address such as"),
        ("registries:\n  a.io:\n    endpoints: [ftp://x]", "registries.a.io.endpoints[0]: 'ftp://x': it does not"),
        ("registries:\n  'a b': {}", "file f line 2: registries.a b: 'https://a b': "),
    ],
)
def test_what_is_wrong_is_named_with_line_key_and_value(text: str, problem: str) -> None:
    """Nothing of such a file is used."""
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert any(problem in one for one in caught.value.problems), caught.value.problems


def test_all_problems_are_told_at_once() -> None:
    """Not only the first."""
    with pytest.raises(ConfigError) as caught:
        read("registries:\n  a.io:\n    x: 1\n  b.io: 2")
    assert len(caught.value.problems) == 2
