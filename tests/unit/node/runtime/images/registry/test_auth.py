"""What registries want to see, and what they are shown."""

import base64
import json

import pytest

from interpose.node.runtime.images.registry.auth import (
    Challenge,
    basic_header,
    parse_challenges,
    read_token,
    token_request,
    user_and_password,
)
from interpose.node.runtime.images.types import Auth

REALM = "https://auth.example/token"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", []),
        ("Basic", [("basic", {})]),
        ('Basic realm="x"', [("basic", {"realm": "x"})]),
        (
            'Bearer realm="https://a/b",service="s, t",scope="repository:x:pull,push"',
            [("bearer", {"realm": "https://a/b", "service": "s, t", "scope": "repository:x:pull,push"})],
        ),
        ('Bearer Realm = "a" , service=b', [("bearer", {"realm": "a", "service": "b"})]),
        ('Basic realm="x", Bearer realm="y"', [("basic", {"realm": "x"}), ("bearer", {"realm": "y"})]),
        (r'Basic realm="a\"b"', [("basic", {"realm": 'a"b'})]),
        ("Negotiate, Basic realm=x", [("negotiate", {}), ("basic", {"realm": "x"})]),
        ("NTLM abc==, Basic realm=x", [("ntlm", {}), ("basic", {"realm": "x"})]),
        ('Bearer realm="open', [("bearer", {})]),
        ('"', []),
    ],
)
def test_challenges_are_read(header: str, expected: list[tuple[str, dict[str, str]]]) -> None:
    """One, several, quoted or not; what cannot be read ends them."""
    found = [(one.scheme, dict(one.parameters)) for one in parse_challenges(header)]
    assert found[: len(expected)] == expected


def test_credentials_come_as_two_words_or_one() -> None:
    """Two count more than one."""
    word = base64.b64encode(b"me:p:w\0").decode()
    assert user_and_password(Auth(auth=word)) == ("me", "p:w")
    assert user_and_password(Auth(username="you", password="x", auth=word)) == ("you", "x")
    assert basic_header(Auth(username="me", password="pw")) == "Basic " + base64.b64encode(b"me:pw").decode()
    assert basic_header(Auth()) == ""


@pytest.mark.parametrize("word", ["%%%", base64.b64encode(b"nocolon").decode(), base64.b64encode(b"\xff:").decode()])
def test_a_word_that_is_none_is_refused_and_not_shown(word: str) -> None:
    """It may be a password all the same."""
    with pytest.raises(ValueError, match="USER:PASSWORD") as caught:
        basic_header(Auth(auth=word))
    assert word not in str(caught.value)


def challenge(**parameters: str) -> Challenge:
    """A challenge for a token."""
    return Challenge(scheme="bearer", parameters=parameters)


def test_a_token_is_asked_for_with_service_and_scope() -> None:
    """Ours, if the registry does not say which."""
    found = token_request(challenge(realm=REALM, service="s", scope="a b"), None, scope="mine")
    assert (found.url, found.authorization, found.form) == (f"{REALM}?service=s&scope=a+b", "", b"")
    assert token_request(challenge(realm=REALM), None, scope="mine").url == f"{REALM}?scope=mine"
    assert token_request(challenge(realm=f"{REALM}?x=1"), None, scope="mine").url == f"{REALM}?x=1&scope=mine"
    assert token_request(challenge(realm=REALM), None, scope="").url == REALM


def test_credentials_go_with_the_request_for_a_token() -> None:
    """A refresh token in a form, so that it is in no log of addresses."""
    auth = Auth(username="me", password="pw")
    assert token_request(challenge(realm=REALM), auth, scope="x").authorization.startswith("Basic ")
    found = token_request(challenge(realm=REALM, service="s"), Auth(identity_token="t"), scope="x")
    assert found.url == REALM
    assert found.form == b"grant_type=refresh_token&refresh_token=t&client_id=interpose&service=s&scope=x"
    assert "refresh" not in repr(found)


@pytest.mark.parametrize("realm", ["", "ftp://x/y", "/token", "https://"])
def test_a_token_comes_from_an_address(realm: str) -> None:
    """Whatever else a registry says is refused."""
    with pytest.raises(ValueError, match="which is not an address"):
        token_request(challenge(realm=realm), None, scope="x")


@pytest.mark.parametrize(
    ("document", "text", "seconds"),
    [
        ({"token": "t"}, "t", 50),
        ({"access_token": "t", "expires_in": 300}, "t", 290),
        ({"token": "t", "access_token": "u", "expires_in": 8}, "t", 4),
        ({"token": "t", "expires_in": -5}, "t", 50),
        ({"token": "t", "expires_in": "x"}, "t", 50),
    ],
)
def test_a_token_is_good_for_a_while(document: dict[str, object], text: str, seconds: float) -> None:
    """A bit less than it says, so that it does not end on the way."""
    found = read_token(json.dumps(document).encode())
    assert (found.text, found.seconds) == (text, seconds)
    assert "'t'" not in repr(found)


@pytest.mark.parametrize("body", [b"{", b"[]", b"{}", b'{"token": 5}', b'{"token": "a\\nb"}', b'{"token": "\\u00e4"}'])
def test_an_answer_without_a_token_is_refused(body: bytes) -> None:
    """Nothing of it is in the message; a token is one line of a header."""
    with pytest.raises(ValueError, match="the answer to the request for a token"):
        read_token(body)
