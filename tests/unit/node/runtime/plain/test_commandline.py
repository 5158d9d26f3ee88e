"""runc's command line."""

import pytest

from interpose.node.runtime.plain.commandline import UsageError, parse


def test_flags_before_and_after_the_verb() -> None:
    """With a value in the next word or after an equals sign, short ones under their long name."""
    words = parse(["--root", "/r", "--log=/l", "--systemd-cgroup", "run", "-d", "-b", "/b", "--pid-file", "/p", "c1"])

    assert words.verb == "run"
    assert words.flags == {
        "root": "/r",
        "log": "/l",
        "systemd-cgroup": "",
        "detach": "",
        "bundle": "/b",
        "pid-file": "/p",
    }
    assert words.container() == "c1"


def test_words_that_are_no_flags_stay() -> None:
    """A signal after the id, a dash for standard input."""
    assert parse(["kill", "-a", "c1", "9"]).rest == ["c1", "9"]
    assert parse(["update", "-r", "-", "c1"]).flag("resources") == "-"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "no command given"),
        (["checkpoint"], "no such command: checkpoint"),
        (["--nope", "run"], "no such flag: --nope"),
        (["run", "--preserve-fds", "3"], "no such flag of run: --preserve-fds"),
        (["run", "--bundle"], "--bundle needs a value"),
    ],
)
def test_what_is_not_understood_is_named(argv: list[str], words: str) -> None:
    """Nothing is passed over."""
    with pytest.raises(UsageError, match=words):
        parse(argv)


@pytest.mark.parametrize("rest", [[], ["../x"], [".."], ["."]])
def test_an_id_is_a_name(rest: list[str]) -> None:
    """It becomes a folder: nothing with a slash, not missing."""
    with pytest.raises(UsageError, match="needs the id"):
        parse(["state", *rest]).container()


def test_a_flag_that_has_to_be_there_is_named() -> None:
    """With the verb."""
    with pytest.raises(UsageError, match="exec needs --process"):
        parse(["exec", "c1"]).flag("process")
