"""Text becomes a value, or an error that names place and text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interpose.config import values
from interpose.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30.0), ("500ms", 0.5), ("2m", 120.0), ("1h", 3600.0), ("1.5", 1.5), ("0", 0.0)]
)
def test_durations_take_units_and_plain_seconds(text: str, seconds: float) -> None:
    """A time is a number with a unit; without one it is seconds."""
    assert values.duration(0.0, 86400.0).parse(text, "flag --grace") == seconds


@pytest.mark.parametrize(
    ("text", "count"), [("64KiB", 65536), ("1MiB", 1 << 20), ("1.5KiB", 1536), ("70000", 70000), ("70000B", 70000)]
)
def test_sizes_take_units_and_plain_bytes(text: str, count: int) -> None:
    """A size is a number with a binary unit; without one it is bytes."""
    assert values.size(0, 1 << 30).parse(text, "flag --max-message") == count


@pytest.mark.parametrize(("text", "bits"), [("0660", 0o660), ("600", 0o600), ("0o640", 0o640)])
def test_modes_are_octal_however_written(text: str, bits: int) -> None:
    """File modes are read as octal digits with or without a prefix."""
    assert values.mode().parse(text, "flag --socket-mode") == bits


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (values.duration(0.0, 60.0), "soon", "is not a time"),
        (values.directory(), "hookserver.d", "is not an absolute path"),
        (values.directory(), "/run/\x1b[31m", "has characters that cannot be shown"),
        (values.file_or_none(), "state.json", "is not an absolute path"),
        (values.duration(0.0, 60.0), "-1s", "is not a time"),
        (values.duration(0.0, 60.0), "5 weeks", "is not a time"),
        (values.duration(0.0, 60.0), "2m", "is out of range: allowed are 0s to 1m"),
        (values.size(0, 1024), "1MB", "is not a size"),
        (values.size(0, 1024), "0.5", "is not a whole number of bytes"),
        (values.size(0, 1024), "1MiB", "is out of range: allowed are 0 to 1KiB"),
        (values.integer(1, 10), "11", "is out of range: allowed are 1 to 10"),
        (values.integer(1, 10), "-5", "is out of range"),
        (values.integer(1, 10), "1e3", "is not a whole number"),
        (values.integer(1, 10), "9" * 100, "is not a whole number"),
        (values.mode(), "0888", "is not an octal file mode"),
        (values.mode(), "4755", "has bits other than"),
        (values.switch(), "maybe", "is neither true nor false"),
        (values.choice("cri", "docker"), "CRI", "is not one of cri, docker"),
        (values.uids(), "0,root", "is not a numeric user id"),
        (values.uids(), "4294967295", "is not a numeric user id"),
        (values.owner(), "a b", "is not of the form"),
        (values.owner(), "root:", "is not of the form"),
    ],
)
def test_bad_text_is_refused_with_place_text_and_reason(kind: values.SettingKind, text: str, reason: str) -> None:
    """Every refusal names where the text came from, the text, and what is wrong with it."""
    with pytest.raises(ConfigError) as caught:
        kind.parse(text, "flag --thing")
    (problem,) = caught.value.problems
    assert problem.startswith("flag --thing: ")
    assert reason in problem
    assert repr(text[:20])[1:-1] in problem or "root" in problem


def test_user_ids_are_a_list_without_repeats() -> None:
    """Ids are separated by commas, order kept, repeats dropped; empty text is an empty list."""
    assert values.uids().parse("0, 1000,0", "flag --allow-uids") == (0, 1000)
    assert values.uids().parse("", "flag --allow-uids") == ()


def test_an_optional_endpoint_may_be_empty_and_a_needed_one_may_not() -> None:
    """Empty means "choose for me" only where the setting says so."""
    assert values.endpoint(optional=True).parse("", "flag --image-endpoint") == ""
    assert values.endpoint(optional=True).parse("unix:///run/a.sock", "flag --image-endpoint") == "/run/a.sock"
    with pytest.raises(ConfigError, match="--listen"):
        values.endpoint(optional=False).parse("", "flag --listen")


def test_the_admin_address_is_a_path_a_loopback_address_or_none() -> None:
    """Paths are normalised, loopback addresses kept, the word none passes."""
    kind = values.listen_or_none()
    assert kind.parse("none", "x") == "none"
    assert kind.parse("unix:///run/admin.sock", "x") == "/run/admin.sock"
    assert kind.parse("127.0.0.1:9095", "x") == "127.0.0.1:9095"
    with pytest.raises(ConfigError, match=r"0\.0\.0\.0"):
        kind.parse("0.0.0.0:9095", "flag --admin-listen")


@given(st.floats(min_value=0.0, max_value=86400.0))
def test_a_shown_duration_reads_back_exactly(seconds: float) -> None:
    """show and parse are inverse for every time."""
    kind = values.duration(0.0, 86400.0)
    if 0 < seconds < 1e-9:
        seconds = 1e-9
    assert kind.parse(kind.show(seconds), "x") == seconds


@given(st.integers(min_value=0, max_value=1 << 40))
def test_a_shown_size_reads_back_exactly(count: int) -> None:
    """show and parse are inverse for every size."""
    kind = values.size(0, 1 << 40)
    assert kind.parse(kind.show(count), "x") == count


def test_a_directory_is_kept_without_a_slash_at_its_end() -> None:
    """So that paths made from it look as a person would write them."""
    assert values.directory().parse("/etc/runtime/hookserver.d/", "flag --hooks-dir") == "/etc/runtime/hookserver.d"
    assert values.directory().parse("/", "flag --hooks-dir") == "/"


@pytest.mark.parametrize("kind", [values.directory(), values.text()], ids=["directory", "text"])
def test_text_that_cannot_be_shown_is_refused(kind: values.SettingKind) -> None:
    """Such text would end up in log lines and on terminals."""
    with pytest.raises(ConfigError, match="flag --x"):
        kind.parse("/a\x1b[2J", "flag --x")


def test_sockets_and_addresses_may_be_turned_off() -> None:
    """By a word, or by nothing."""
    for kind in (values.socket_or_none(), values.address(optional=True)):
        assert [kind.parse(text, "x") for text in ("", "none")] == ["none", "none"]
    assert values.socket_or_none().parse("unix:///run/x.sock", "x") == "/run/x.sock"
    assert values.address(optional=True).parse(":9095", "x") == ":9095"
    with pytest.raises(ConfigError, match="'none' is not an address"):
        values.address().parse("none", "x")


@pytest.mark.parametrize(
    ("kind", "relative"),
    [
        (values.directory(), {"a", "./a", "none", "../a/b"}),
        (values.file_or_none(), {"a", "./a", "../a/b"}),
        (values.socket_or_none(), set[str]()),
        (values.text(), set[str]()),
    ],
    ids=["directory", "file_or_none", "socket_or_none", "text"],
)
def test_only_paths_can_be_relative(kind: values.SettingKind, relative: set[str]) -> None:
    """And of those not what stands in the place of one."""
    assert {text for text in ("", "/a", "a", "./a", "none", "../a/b") if kind.is_relative(text)} == relative


@pytest.mark.parametrize(("text", "value"), [("", "none"), ("none", "none"), ("/a/b/", "/a/b")])
def test_a_file_may_be_none(text: str, value: str) -> None:
    """Empty is none too, so that a variable can turn it off."""
    assert values.file_or_none().parse(text, "flag --node-state-file") == value
