"""The meaning of `--dump-redact`."""

import pytest

from interpose.config.dump_redaction import LAST_APPLIED, SHOW_ALL, Globs, parse_redaction
from interpose.errors import ConfigError


@pytest.mark.parametrize("name", ["PATH", "DB_PASSWORD", ""])
def test_the_default_hides_all_variables(name: str) -> None:
    """Whatever they are called."""
    assert parse_redaction("default").env.hides(name)


@pytest.mark.parametrize(
    "key",
    [
        "my-token",
        "example.com/DB-Password",
        "apiKey",
        "x.private-key.y",
        "access_key",
        ".dockerconfigjson",
        "my-kubeconfig",
        LAST_APPLIED,
    ],
)
def test_the_default_hides_annotations_that_sound_secret(key: str) -> None:
    """By a word in their key, without regard to case."""
    assert parse_redaction("default").annotation.hides(key)


@pytest.mark.parametrize("key", ["app", "io.kubernetes.pod.name", "example.com/owner"])
def test_the_default_shows_other_annotations_and_labels(key: str) -> None:
    """They say what runs where."""
    redaction = parse_redaction("default")
    assert not redaction.annotation.hides(key)
    assert not redaction.label.hides(key)


def test_the_default_hides_output_and_shows_commands() -> None:
    """What a command wrote may be anything; what was run is what one looks for."""
    redaction = parse_redaction("default")
    assert (redaction.output, redaction.command, redaction.options, redaction.unknown) == (True, False, False, False)


def test_strict_hides_all_annotations_labels_commands_and_unknown_fields() -> None:
    """Values of them, that is."""
    redaction = parse_redaction("strict")
    assert redaction.annotation.hides("app")
    assert redaction.label.hides("app")
    assert (redaction.output, redaction.command, redaction.options, redaction.unknown) == (True, True, True, True)


def test_strict_shows_which_pod_it_is() -> None:
    """Without the labels of the kubelet no call could be told from another."""
    assert not parse_redaction("strict").label.hides("io.kubernetes.pod.name")


@pytest.mark.parametrize("text", ["none", "NONE", " none "])
def test_none_shows_everything(text: str) -> None:
    """Also credentials."""
    assert parse_redaction(text) == SHOW_ALL
    assert SHOW_ALL.nothing


def test_an_item_can_be_taken_away() -> None:
    """And nothing else goes with it."""
    redaction = parse_redaction("default,-env:path,-output")
    assert not redaction.env.hides("PATH")
    assert redaction.env.hides("PATHS")
    assert not redaction.output


def test_the_last_item_that_matches_counts() -> None:
    """A list is read from left to right."""
    redaction = parse_redaction("env:*, -env:APP_*, env:APP_KEY")
    assert [redaction.env.hides(name) for name in ("X", "APP_NAME", "APP_KEY")] == [True, False, True]


def test_a_list_is_what_it_says() -> None:
    """Without `default` in it, only what is named is hidden, besides credentials."""
    redaction = parse_redaction("label:team,command")
    assert not redaction.nothing
    assert not redaction.env.hides("X")
    assert redaction.label.hides("team")
    assert redaction.command


def test_a_list_that_begins_by_taking_away_begins_with_the_default() -> None:
    """There would be nothing to take from."""
    assert parse_redaction("-env:PATH") == parse_redaction("default,-env:PATH")


def test_no_rules_hide_nothing() -> None:
    """Not even an empty key."""
    assert not Globs().hides("")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "an empty item"),
        ("default,,output", "an empty item"),
        ("default,none", "'none' must stand alone"),
        ("-none", "'-none' must stand alone"),
        ("default,-strict", "'-strict' takes a whole set away"),
        ("default,env", "'env' needs a name or glob"),
        ("label: ", "'label:' needs a name or glob"),
        ("defaults", "unknown item 'defaults'"),
        ("command:ls", "unknown item 'command:ls'"),
    ],
)
def test_what_cannot_be_used_is_named(text: str, problem: str) -> None:
    """With the flag, the whole value and the item."""
    with pytest.raises(ConfigError) as caught:
        parse_redaction(text, "--there")
    assert len(caught.value.problems) == 1
    assert f"--there: {text!r}: {problem}" in str(caught.value)


def test_every_bad_item_is_named() -> None:
    """Not only the first."""
    with pytest.raises(ConfigError) as caught:
        parse_redaction("a,b,default")
    assert len(caught.value.problems) == 2


def test_variables_that_ask_for_cpus_are_shown() -> None:
    """A recording can be decided about again; everything else of the environment is hidden."""
    hides = parse_redaction("default").env.hides
    assert {name for name in ("STP_POOL", "CMK_NUM_CORES", "PATH", "STPX") if not hides(name)} == {
        "STP_POOL",
        "CMK_NUM_CORES",
    }
