"""Credentials as `docker login` leaves them."""

import json

import pytest

from interpose.node.runtime.images.registry.docker_config import credentials, credentials_for_registry
from interpose.node.runtime.images.registry.reference import parse_reference
from interpose.node.runtime.images.types import Auth

TEXT = json.dumps(
    {
        "auths": {
            "https://index.docker.io/v1/": {"auth": "aGk6aGk="},
            "host:5000": {"username": "me", "password": "pw"},
            "token.io/path": {"identitytoken": "t"},
            "https://mixed.io/v2/": {"auth": "whole"},
            "mixed.io/team/": {"auth": "team"},
            "mixed.io/team/app": {"auth": "app"},
            "program.io": {},
        },
        "credsStore": "desktop",
    }
)


@pytest.mark.parametrize(
    ("image", "auth"),
    [
        ("busybox", Auth(auth="aGk6aGk=")),
        ("host:5000/a", Auth(username="me", password="pw")),
        ("token.io/path", Auth(identity_token="t")),
        ("token.io/path/a", Auth(identity_token="t")),
        ("token.io/pathway/a", None),
        ("token.io/a", None),
        ("mixed.io/other/app", Auth(auth="whole")),
        ("mixed.io/team/other", Auth(auth="team")),
        ("mixed.io/team/app:1", Auth(auth="app")),
        ("mixed.io/team/apple", Auth(auth="team")),
        ("program.io/a", None),
        ("other.io/a", None),
    ],
)
def test_an_image_is_found_by_its_registry_and_path(image: str, auth: Auth | None) -> None:
    """Keys may be addresses, or parts of a registry, which do not count for the rest. A program's are not here."""
    assert credentials(TEXT, "f", parse_reference(image)) == auth


def test_a_file_without_credentials_has_none() -> None:
    """It has other settings, too."""
    assert credentials("{}", "f", parse_reference("x.io/a")) is None
    assert credentials("[]", "f", parse_reference("x.io/a")) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "f: it is not JSON"),
        ('{"auths": []}', "f: key auths: "),
        ('{"auths": {"x.io": 1}}', "f: key auths.x.io: "),
        ('{"auths": {"x.io": {"auth": 1}}}', "f: key auths.x.io.auth: "),
    ],
)
def test_what_is_wrong_is_named_with_file_and_key(text: str, problem: str) -> None:
    """Without values."""
    with pytest.raises(ValueError, match=problem):
        credentials(text, "f", parse_reference("x.io/a"))


@pytest.mark.parametrize(
    ("address", "domain", "shown"),
    [
        ("", "any.io", True),
        ("host:5000", "host:5000", True),
        ("https://host:5000/v2/", "host:5000", True),
        ("https://index.docker.io/v1/", "docker.io", True),
        ("other.io", "host:5000", False),
        ("host", "host:5000", False),
    ],
)
def test_credentials_are_shown_only_to_the_registry_they_are_for(address: str, domain: str, shown: bool) -> None:
    """A password does not go to another one because somebody asked for an image there."""
    auth = Auth(username="me", password="pw", server_address=address)
    assert credentials_for_registry(auth, domain) == (auth if shown else None)
    assert credentials_for_registry(None, domain) is None
