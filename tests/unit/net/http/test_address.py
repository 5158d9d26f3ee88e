"""Addresses of servers and proxies, and when a proxy counts."""

import pytest

from interpose.net.http.address import Proxy, Server, parse_proxy, parse_server, proxy_from

SERVER = parse_server("https://k8s.example.com:6443")


@pytest.mark.parametrize(
    ("text", "server", "again"),
    [
        ("https://10.0.0.1", Server(scheme="https", host="10.0.0.1", port=443), "https://10.0.0.1:443"),
        ("http://localhost:8001/", Server(scheme="http", host="localhost", port=8001), "http://localhost:8001"),
        ("http://a", Server(scheme="http", host="a", port=80), "http://a:80"),
        (
            "HTTPS://[fd00::1]:6443/k8s/clusters/c-1/",
            Server(scheme="https", host="fd00::1", port=6443, prefix="/k8s/clusters/c-1"),
            "https://[fd00::1]:6443/k8s/clusters/c-1",
        ),
    ],
)
def test_servers(text: str, server: Server, again: str) -> None:
    """Scheme, host, port and prefix; and the way they are shown."""
    assert parse_server(text) == server
    assert str(server) == again


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10.0.0.1:6443", "not an address such as https://HOST:PORT"),
        ("", "not an address"),
        ("https://", "not an address"),
        ("https://a:99999", "not an address"),
        ("https://a:0", "not an address"),
        ("https://[::1", "not an address"),
        ("https://a b", "not an address"),
        ("https://a\x00", "not an address"),
        ("ftp://u:hidden@a", "it does not begin with https:// or http://"),
        ("https://a?x", "has more than an address"),
        ("https://a#x", "has more than an address"),
        ("https://me:hidden@a", "a user or a password"),
    ],
)
def test_servers_that_are_none(text: str, said: str) -> None:
    """The error says what is wrong, without a password."""
    with pytest.raises(ValueError) as caught:
        parse_server(text)
    assert said in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_proxies() -> None:
    """With and without a port, a scheme, a password; IPv6."""
    assert parse_proxy("http://proxy:3128") == Proxy(host="proxy", port=3128)
    assert parse_proxy("proxy:3128") == Proxy(host="proxy", port=3128)
    assert parse_proxy("http://a%40b:c@[::1]") == Proxy(host="::1", port=80, authorization="Basic YUBiOmM=")
    assert parse_proxy("http://me@proxy").authorization == "Basic bWU6"
    assert parse_proxy("http://[::1]:1").authority == "[::1]:1"
    assert parse_proxy("proxy:3128").authority == "proxy:3128"


@pytest.mark.parametrize("text", ["socks5://proxy:1", "https://proxy:1"])
def test_proxies_of_other_kinds(text: str) -> None:
    """They are refused by name."""
    with pytest.raises(ValueError, match="is not supported, only http://"):
        parse_proxy(text)


def test_secrets_of_proxies_are_not_shown() -> None:
    """Not in its text, and not in errors."""
    assert "Basic" not in repr(parse_proxy("http://me:hidden@proxy"))
    with pytest.raises(ValueError) as caught:
        parse_proxy("http://me:hidden@")
    assert "hidden" not in str(caught.value)


def test_proxy_of_the_environment() -> None:
    """By the scheme of the server; the spelling in small letters counts first."""
    assert proxy_from({}, SERVER) is None
    assert proxy_from({"HTTPS_PROXY": "a:1"}, SERVER) == Proxy(host="a", port=1)
    assert proxy_from({"HTTPS_PROXY": "a:1", "https_proxy": "b:2"}, SERVER) == Proxy(host="b", port=2)
    plain = parse_server("http://k8s.example.com")
    assert proxy_from({"HTTPS_PROXY": "a:1", "HTTP_PROXY": "c:3"}, plain) is None
    assert proxy_from({"http_proxy": "a:1"}, plain) == Proxy(host="a", port=1)


def test_proxy_of_the_environment_that_is_none() -> None:
    """The variable is named."""
    with pytest.raises(ValueError, match="variable HTTPS_PROXY: a proxy of kind socks5:// is not supported"):
        proxy_from({"HTTPS_PROXY": "socks5://a"}, SERVER)


@pytest.mark.parametrize(
    ("server", "exceptions", "direct"),
    [
        ("https://localhost", "", True),
        ("https://127.0.0.1:6443", "", True),
        ("https://[::1]", "", True),
        ("https://10.96.0.1", "", False),
        ("https://10.96.0.1", "*", True),
        ("https://10.96.0.1", "10.96.0.1", True),
        ("https://10.96.0.1", "a.b, 10.0.0.0/8", True),
        ("https://10.96.0.1", "10.96.0.1:443", True),
        ("https://10.96.0.1", "10.96.0.1:6443", False),
        ("https://10.96.0.1", "192.168.0.0/16,,.svc", False),
        ("https://[fd00::1]", "fd00::/8", True),
        ("https://[fd00::1]", "[fd00::1]:443", True),
        ("https://[fd00::1]", "fd00::1", True),
        ("https://k8s.example.com", "example.com", True),
        ("https://k8s.example.com", "EXAMPLE.com:443", True),
        ("https://k8s.example.com", ".example.com", True),
        ("https://k8s.example.com", "*.example.com", True),
        ("https://example.com", ".example.com", False),
        ("https://example.com", "example.com", True),
        ("https://badexample.com", "example.com", False),
        ("https://example.com.", "example.com", True),
    ],
)
def test_exceptions(server: str, exceptions: str, direct: bool) -> None:
    """NO_PROXY as other programs read it; ourselves are never asked through a proxy."""
    env = {"HTTPS_PROXY": "proxy:1", "NO_PROXY": exceptions}
    assert (proxy_from(env, parse_server(server)) is None) is direct
