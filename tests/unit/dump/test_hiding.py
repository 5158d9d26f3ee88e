"""Hiding single texts."""

import pytest

from interpose.dump.hiding import Memo, hide_credentials, hide_token, hide_value, hides_metadata


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("pull https://u:p@host/x failed", "pull https://<redacted>@host/x failed"),
        ("https://token@host", "https://<redacted>@host"),
        ("https://u:p@w@host/", "https://<redacted>@host/"),
        ('parse "https://u:p/q@host": invalid port', 'parse "https://<redacted>@host": invalid port'),
        ("a://u:p@b c://u:p@d", "a://<redacted>@b c://<redacted>@d"),
        ("https://h/blob?X-Amz-Signature=ab&n=1", "https://h/blob?X-Amz-Signature=<redacted>&n=1"),
        ('Get "https://h/x?access_token=ab": EOF', 'Get "https://h/x?access_token=<redacted>": EOF'),
    ],
)
def test_secrets_in_urls_are_hidden(text: str, hidden: str) -> None:
    """And nothing around them; doing it twice changes nothing."""
    assert hide_credentials(text) == hidden
    assert hide_credentials(hidden) == hidden


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no such container",
        "mail me@example.com",
        "https://host:5000/v2/image@sha256:abc",
        "https://host/path?page=2",
        "unix:///run/x.sock",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """An error text is there to be read."""
    assert hide_credentials(text) == text


def test_texts_made_to_be_slow_are_not() -> None:
    """Each of these would take minutes if repetitions were not bounded."""
    for text in ("://a:" * 13_000, "://?" + "key" * 20_000, "a" * 65_000 + "://", "://" + "&;?" * 20_000):
        hide_credentials(text)


@pytest.mark.parametrize(
    ("url", "hidden"),
    [
        ("http://127.0.0.1:4533/exec/AbCdEf", "http://127.0.0.1:4533/exec/<redacted>"),
        ("https://[::1]:1/attach/x?y=z#f", "https://[::1]:1/attach/<redacted>"),
        ("http://h/portforward/a/b", "http://h/portforward/<redacted>"),
        ("http://u:p@h/cri/token", "http://<redacted>@h/<redacted>"),
        ("http://h", "http://h/<redacted>"),
        ("token", "<redacted>"),
        ("", ""),
    ],
)
def test_the_url_of_a_stream_keeps_its_host_and_kind(url: str, hidden: str) -> None:
    """The rest lets one into the container."""
    assert hide_token(url) == hidden
    assert hide_token(hidden) == hidden


@pytest.mark.parametrize("key", ["authorization", "Proxy-Authorization", "cookie", "x-auth-token", "x-api-key"])
def test_metadata_that_lets_somebody_in_is_hidden(key: str) -> None:
    """Whatever stands in front of it."""
    assert hides_metadata(key)


@pytest.mark.parametrize("key", ["user-agent", "traceparent", "grpc-timeout"])
def test_other_metadata_is_shown(key: str) -> None:
    """It says who called."""
    assert not hides_metadata(key)


def test_nothing_stays_nothing() -> None:
    """That a value is empty is worth knowing."""
    assert hide_value("") == ""
    assert hide_value("x") == "<redacted>"


def test_a_memo_asks_once_and_does_not_grow_for_ever() -> None:
    """Keys may be made up by anybody."""
    asked: list[str] = []

    def ask(key: str) -> bool:
        asked.append(key)
        return key == "a"

    memo = Memo(ask)
    assert [memo["a"], memo["b"], memo["a"]] == [True, False, True]
    assert asked == ["a", "b"]
    for number in range(10_000):
        memo[str(number)]
    assert len(memo) <= 4096
