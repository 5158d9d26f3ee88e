"""Where a script calls cmk isolate: the shell's words, as far as they matter."""

import pytest

from interpose.core.policy.static_pools.cmk import CmkCalls, find_calls


def called(script: str) -> list[list[str]]:
    """The words behind each call, as the program gets them."""
    return [[word.value for word in call.words] for call in find_calls(script).calls]


@pytest.mark.parametrize(
    "before",
    [
        "",
        "  ",
        "set -e; ",
        "true && ",
        "false || ",
        "x | ",
        "x & ",
        "(",
        "x=$(",
        "cd /x\n",
        "\\\n",
        "exec ",
        "{ ",
        "! ",
        "if ",
        "if x; then ",
        "while x; do ",
        "until ",
        "A=1 ",
        "A= B+='x y' exec ",
        "2>/dev/null ",
        ">log ",
        "# a note\n",
        "echo it\\'s; ",
        "case $1 in a) ",
    ],
)
def test_calls_are_where_commands_begin(before: str) -> None:
    """With a path or without one."""
    for path in ("", "/opt/bin/"):
        found = find_calls(f"{before}{path}cmk isolate --pool=a run")
        assert [call.start for call in found.calls] == [len(before)]
        assert not found.ambiguous


@pytest.mark.parametrize(
    "script",
    [
        "echo 'run; cmk isolate x'",
        'echo "run; cmk isolate x"',
        'echo "a \\" ; cmk isolate x"',
        "echo 'never closed; cmk isolate x",
        'echo "never closed; cmk isolate x',
        "run # cmk isolate x",
        "cmk isolated x",
        "cmkx isolate x",
        "cmk; isolate",
        "cmk nodes; echo isolate",
        "",
    ],
)
def test_other_text_is_no_call(script: str) -> None:
    """In quotes, in comments, or other words."""
    assert find_calls(script) == CmkCalls()


@pytest.mark.parametrize("script", ["nice cmk isolate x", "echo cmk isolate x", "env A=1 cmk isolate --pool=a x"])
def test_calls_elsewhere_are_told(script: str) -> None:
    """Nobody knows what the program before them does with them."""
    assert find_calls(script) == CmkCalls(ambiguous=True)


def test_a_call_ends_with_its_command() -> None:
    """Lines go on behind a backslash, quotes are taken off."""
    assert called("cmk isolate \\\n --pool=a 'x y' z\\ z w'v'\"u\"; other") == [["--pool=a", "x y", "z z", "wvu"]]
    assert called("cmk isolate a\ncmk isolate b|cmk isolate c") == [["a"], ["b"], ["c"]]
    assert called("cmk isolate a\\\nb") == [["ab"]]


@pytest.mark.parametrize("part", ["'", '"', "\\", "a", "$(", " ", "#", "A=1 ", "cmk isolate "])
def test_long_text_takes_no_longer_than_its_length(part: str) -> None:
    """Half a million characters of anything; a search that tries everything would never end."""
    assert len(find_calls(part * (500_000 // len(part)) + " cmk isolate").calls) <= 1
