"""Endpoint text becomes a path or an address, or an error that tells what to write instead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interpose.config.endpoint import (
    MAX_PATH_BYTES,
    WELL_KNOWN,
    WELL_KNOWN_RUNTIMES,
    TcpListen,
    UnixListen,
    parse_address,
    parse_endpoint,
    parse_listen,
)
from interpose.errors import ConfigError


@pytest.mark.parametrize(
    "text",
    ["/run/x.sock", "unix:///run/x.sock", "unix:/run/x.sock", "UNIX:///run/x.sock"],
)
def test_all_three_forms_name_the_same_path(text: str) -> None:
    """A bare path, unix:///path and unix:/path are equal; the scheme's case does not matter."""
    assert parse_endpoint(text, "--listen") == "/run/x.sock"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "empty"),
        ("run/x.sock", "not absolute"),
        ("unix:run/x.sock", "not absolute"),
        ("unix:", "not absolute"),
        ("unix://", "not absolute"),
        ("@name", "abstract"),
        ("unix:@name", "abstract"),
        ("unix://@name", "abstract"),
        ("\0name", "NUL"),
        ("/run/a\0b", "NUL"),
        ("/run/x.sock\n", "white space"),
        (" /run/x.sock", "white space"),
        ("/run/x/", "directory"),
        ("tcp://127.0.0.1:80", "scheme tcp"),
        ("npipe:////./pipe/x", "scheme npipe"),
        ("unix://run/x.sock", "did you mean unix:///run/x.sock?"),
        ("unix://localhost/run/x.sock", "'localhost' for a host name"),
    ],
)
def test_other_forms_are_refused_with_flag_value_and_reason(text: str, hint: str) -> None:
    """The message names the flag, the value as it was written, and what is wrong with it."""
    with pytest.raises(ConfigError) as caught:
        parse_endpoint(text, "--listen")

    message = str(caught.value)
    assert message.startswith("--listen: ")
    assert hint in message
    assert not text or repr(text) in message


def test_the_length_limit_counts_bytes() -> None:
    """107 bytes are the longest path; one more is refused with both numbers, wide characters counted as they are."""
    longest = "/" + "x" * (MAX_PATH_BYTES - 1)

    assert parse_endpoint(f"unix://{longest}", "k") == longest
    for text in (longest + "x", longest[:-1] + "ä"):
        with pytest.raises(ConfigError, match=r"is 108 bytes long.* at most 107"):
            parse_endpoint(text, "k")


@given(st.text(max_size=130) | st.text(max_size=20).map(lambda text: f"unix://{text}"))
def test_any_text_is_a_usable_path_or_a_config_error(text: str) -> None:
    """Nothing else comes out, whatever goes in."""
    path, problem = "", ""
    try:
        path = parse_endpoint(text, "key")
    except ConfigError as error:
        problem = str(error)

    assert problem.startswith("key: ") or path.startswith("/")
    assert len(path.encode()) <= MAX_PATH_BYTES


@pytest.mark.parametrize("places", WELL_KNOWN.values(), ids=WELL_KNOWN)
def test_well_known_places_are_valid(places: tuple[str, ...]) -> None:
    """Each is an endpoint we would accept from a flag, and none is listed twice."""
    assert [parse_endpoint(path, "default") for path in places] == list(places)
    assert len(set(places)) == len(places)


def test_well_known_places_start_with_the_likeliest() -> None:
    """containerd of a CRI backend; of dockerd where its packages put it."""
    assert WELL_KNOWN["docker"] == ("/var/run/docker.sock", "/run/docker.sock")
    assert WELL_KNOWN_RUNTIMES[:2] == ("/run/containerd/containerd.sock", "/run/crio/crio.sock")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/run/a.sock", UnixListen("/run/a.sock")),
        ("unix:///run/a.sock", UnixListen("/run/a.sock")),
        ("unix:/run/a.sock", UnixListen("/run/a.sock")),
        ("127.0.0.1:9090", TcpListen("127.0.0.1", 9090)),
        ("[::1]:9090", TcpListen("::1", 9090)),
        ("localhost:0", TcpListen("127.0.0.1", 0)),
        ("LocalHost:65535", TcpListen("127.0.0.1", 65535)),
    ],
)
def test_listen_takes_unix_paths_and_loopback_addresses(text: str, expected: UnixListen | TcpListen) -> None:
    """What only this machine can reach is accepted."""
    assert parse_listen(text, "--admin-listen") == expected


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "neither"),
        ("9090", "neither"),
        ("a.sock", "neither"),
        ("tcp://127.0.0.1:1", "neither"),
        (":9090", "no authentication"),
        ("0.0.0.0:9090", "no authentication"),
        ("[::]:9090", "no authentication"),
        ("::1:9090", "no authentication"),
        ("example.org:80", "no authentication"),
        ("127.0.0.1:", "port ''"),
        ("127.0.0.1:65536", "port '65536'"),
        ("127.0.0.1:-1", "port '-1'"),
        ("127.0.0.1:²", "port '²'"),
        ("@admin", "abstract"),
        ("unix://run/a.sock", "did you mean"),
    ],
)
def test_listen_refuses_what_others_could_reach(text: str, hint: str) -> None:
    """An unauthenticated interface does not leave the machine, and the message says why."""
    with pytest.raises(ConfigError) as caught:
        parse_listen(text, "--admin-listen")

    assert str(caught.value).startswith("--admin-listen: ")
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("0.0.0.0:9095", "0.0.0.0", 9095),
        ("[::]:9095", "::", 9095),
        ("[fe80::1%eth0]:1", "fe80::1%eth0", 1),
        (":9095", "", 9095),
        ("node-1.example.com:0", "node-1.example.com", 0),
    ],
)
def test_an_address_may_be_any(text: str, host: str, port: int) -> None:
    """Names, literals of both families with their brackets taken off, and all addresses at once."""
    assert parse_address(text, "--metrics-listen") == TcpListen(host, port)


@pytest.mark.parametrize(
    "text", ["", "9095", "::1:9095", "[127.0.0.1]:1", "[::1:1", "a b:1", "/run/x.sock", "h:", "h:65536", "h:x"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    """With flag and text, and a literal of IPv6 needs its brackets."""
    with pytest.raises(ConfigError, match="--metrics-listen"):
        parse_address(text, "--metrics-listen")
