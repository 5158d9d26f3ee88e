"""Hiding single texts."""

import pytest

from interpose.dump.redact.patterns import Memo, hide_credentials, hide_option, hide_token, hide_value, hides_metadata


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
        (f"Get https://AWS:{'T' * 2000}@ecr/v2: 401", "Get https://<redacted>@ecr/v2: 401"),
        (f"https://{'t' * 2000}@host", "https://<redacted>@host"),
        ('Get "https://u:p\'q@host/v2"', 'Get "https://<redacted>@host/v2"'),
        ('parse "https://u:p q@host/": invalid', 'parse "https://<redacted>@host/": invalid'),
        ("https://u:p/q@sha1.example.com/x", "https://<redacted>@sha1.example.com/x"),
        ("https://u:p/q@sha256:5000/x", "https://<redacted>@sha256:5000/x"),
        ("https://u:12/q@host", "https://<redacted>@host"),
        ("https://u:1234567 8@host", "https://<redacted>@host"),
        ("u:p@registry.io/v2 failed", "<redacted>@registry.io/v2 failed"),
        ('to "u:p@w@host"', 'to "<redacted>@host"'),
        ("GET /v2?access_token=abc&n=1", "GET /v2?access_token=<redacted>&n=1"),
        (f"https://h/?{'x' * 200}_token=ab", f"https://h/?{'x' * 200}_token=<redacted>"),
        ("https://h/?x=1%26token%3Dabc", "https://h/?x=1%26token%3D<redacted>"),
        ("-o user=me,password=x", "-o user=me,password=<redacted>"),
        ("run --db-password='a b' now", "run --db-password='<redacted>' now"),
        (r"\"/?token=a\b\": EOF", r"\"/?token=<redacted>\": EOF"),
        ("header Authorization: Bearer a.b.c!", "header Authorization: <redacted>"),
        ('{"authorization": "Basic abc", "x": 1}', '{"authorization": "<redacted>", "x": 1}'),
        ("got bearer a.b.c twice", "got bearer <redacted> twice"),
        ("got Basic dTpw", "got Basic <redacted>"),
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
        "docker://busybox:1.36@sha256:abc",
        "host:5000/library/busybox:1.36@sha256:abc",
        "https://host:5000 is down, tell me@example.com",
        "https://[fd00::1]:5000/v2 is down, tell me@example.com",
        "https://[fd00::1]/v2 is down, tell me@example.com",
        "https://host: no answer, tell me@example.com",
        "https://host/v2: tell me@example.com",
        "unix:///run/app@1.sock",
        "no basic auth credentials",
        "Bearer token is too old, Basic authentication needed",
        'Bearer realm="https://auth.docker.io/",service="registry"',
        "cache key=5, tokens?token=&x",
        "unix:///run/x.sock",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """An error text is there to be read."""
    assert hide_credentials(text) == text


@pytest.mark.parametrize(
    "part",
    ["://a:", "://a:1/", "://a:1/b ", "a", "?a", "%26", "key", "&;?", "@", "a:b@", "password='", "bearer ", "@sha1:a"],
)
@pytest.mark.parametrize("end", ["", " x@y", "@sha256:abc"])
def test_texts_made_to_be_slow_are_not(part: str, end: str) -> None:
    """Each of these would take hours if it were not passed over once."""
    text = part * (1_000_000 // len(part)) + end
    assert hide_credentials(text).endswith(("<redacted>", "<redacted>'", text[-1]))


@pytest.mark.parametrize(
    ("option", "hidden", "strict"),
    [
        ("ro", "ro", "ro"),
        ("uid=0", "uid=0", "uid=<redacted>"),
        ("password=a", "password=<redacted>", "password=<redacted>"),
        ("secret=", "secret=", "secret="),
        (
            "pass=a,b,uid=0,key=c",
            "pass=<redacted>,uid=0,key=<redacted>",
            "pass=<redacted>,uid=<redacted>,key=<redacted>",
        ),
        ("from=//u:p@h/x", "<redacted>@h/x", "<redacted>@h/x"),
        ("bypass=1", "bypass=1", "bypass=<redacted>"),
    ],
)
def test_options_are_hidden_by_their_names_or_all(option: str, hidden: str, strict: str) -> None:
    """Values of them; a comma may be part of one."""
    assert hide_option(option) == hidden
    assert hide_option(hidden) == hidden
    assert hide_option(option, every=True) == strict


@pytest.mark.parametrize(
    ("url", "hidden"),
    [
        ("http://127.0.0.1:4533/exec/AbCdEf", "http://127.0.0.1:4533/exec/<redacted>"),
        ("https://[::1]:1/attach/x?y=z#f", "https://[::1]:1/attach/<redacted>"),
        ("http://h/portforward/a/b", "http://h/portforward/<redacted>"),
        ("http://u:p@h/cri/token", "http://<redacted>@h/<redacted>"),
        ("http://h", "http://h/<redacted>"),
        ("http://u:p/q@h/exec/x", "<redacted>"),
        ("http://u:1/q@h/exec/x", "<redacted>"),
        ("token", "<redacted>"),
        ("", ""),
    ],
)
def test_the_url_of_a_stream_keeps_its_host_and_kind(url: str, hidden: str) -> None:
    """The rest lets one into the container."""
    assert hide_token(url) == hidden
    assert hide_token(hidden) == hidden


@pytest.mark.parametrize(
    "key",
    [
        "authorization",
        "Proxy-Authorization",
        "cookie",
        "x-auth-token",
        "x-api-key",
        "x_api_key",
        "x-access-key",
        "private_key",
        "x-auth",
        "x-auth-bin",
        "x-session",
        "x-session-id",
        "x-jwt",
        "bearer",
    ],
)
def test_metadata_that_lets_somebody_in_is_hidden(key: str) -> None:
    """Whatever stands in front of it."""
    assert hides_metadata(key)


@pytest.mark.parametrize("key", ["user-agent", "traceparent", "grpc-timeout", "x-author", "keyboard"])
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


def test_a_memo_does_not_keep_what_is_long() -> None:
    """It would hold much of what passes."""
    memo = Memo(len)
    assert memo["x" * 10_000] == 10_000
    assert not memo


@pytest.mark.parametrize("text", ["", "me@host", "00-4bf92f3577b34da6-00f067aa0ba902b7-01", "grpc-go/1.72.1"])
def test_what_cannot_hold_a_secret_stays(text: str) -> None:
    """Most metadata is of this kind."""
    assert hide_credentials(text) == text


def test_a_secret_within_another_is_hidden_with_it() -> None:
    """Both rules find a part of the same text."""
    assert hide_credentials("Bearer password=abc") == "Bearer <redacted>"
