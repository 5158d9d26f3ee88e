"""The pool that a container selects: CMK's command line, and environment variables, which win.

CMK started programs itself: `cmk isolate --pool=P [--socket-id=N] [--no-affinity] [--conf-dir=D] [--] program args`.
Nothing of that is needed any more, so the call is taken out of the command and only the program is left. It is found
at the start of the command or behind `--`, with any path before `cmk`, or where a command can start inside one
argument, as in `sh -c "cmk isolate ..."`; there everything else of the text stays as it is. Text that cannot be
understood is a ValueError that names it: a container must not end up in another pool than it selected without an error.

In a script a call is where a command can begin by the shell's rules: at the start, behind what ends a command, behind
words such as `then` and `exec`, behind assignments and redirections. Text in quotes and comments are no calls.
Everything else that reads like one is reported apart. Cost: proportional to the text, whatever is in it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from interpose.core.model.text import quoted
from interpose.core.policy.request import Request

# A path before the name is fine.
PROGRAM: Final = re.compile(r"(?:[^\s;&|()'\"]*/)?cmk")
ISOLATE: Final = "isolate"
# A line that ends in a backslash goes on in the next one. A quote that is never closed goes on to the end.
_TOKEN: Final = re.compile(
    r"""(?P<blank>(?:[ \t\r\f\v]|\\\r?\n)++)
      | (?P<comment>\#[^\n]*+)
      | (?P<end>[;&|()\n])
      | (?P<word>(?:[^\s;&|()'"\\]|\\.?|'[^']*+(?:'|\Z)|"(?:[^"\\]|\\.?)*+(?:"|\Z))++)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
# Behind these a command begins as well.
_BEFORE: Final = frozenset(("!", "{", "if", "then", "elif", "else", "while", "until", "do", "time", "exec"))
_ALSO_BEFORE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=.*|\d*[<>].*", re.ASCII | re.DOTALL)
_QUOTES: Final = re.compile(r"""\\\n|'([^']*)'?|"((?:[^"\\]|\\.)*)"?|\\(.)""", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptWord:
    """A word of a script, with its quotes."""

    text: str
    start: int
    end: int

    @property
    def value(self) -> str:
        """The word without quotes, as a program gets it."""
        return _QUOTES.sub(lambda found: found[1] or found[2] or found[3] or "", self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class CmkCall:
    """A call of `cmk isolate` in a script."""

    start: int  # of the call in the text
    words: tuple[ScriptWord, ...]  # behind it, up to the end of the command


@dataclass(frozen=True, slots=True, kw_only=True)
class CmkCalls:
    """The calls of `cmk isolate` in a script."""

    calls: tuple[CmkCall, ...] = ()
    ambiguous: bool = False  # there is text that reads like a call, where no command begins


def find_calls(script: str) -> CmkCalls:
    """All calls in a script."""
    if "cmk" not in script or ISOLATE not in script:
        return CmkCalls()
    calls: list[CmkCall] = []
    ambiguous = False
    for words in _commands(script):
        begin = next((at for at, word in enumerate(words) if not _goes_before(word.text)), len(words))
        for at, word in enumerate(words[:-1]):
            if not PROGRAM.fullmatch(word.text) or words[at + 1].text != ISOLATE:
                continue
            if at == begin:
                calls.append(CmkCall(start=word.start, words=tuple(words[at + 2 :])))
                break
            ambiguous = True
    return CmkCalls(calls=tuple(calls), ambiguous=ambiguous)


def _commands(script: str) -> list[list[ScriptWord]]:
    """The words of a script by command."""
    commands: list[list[ScriptWord]] = [[]]
    for token in _TOKEN.finditer(script):
        if token.lastgroup == "word":
            commands[-1].append(ScriptWord(text=token[0], start=token.start(), end=token.end()))
        elif token.lastgroup == "end":
            commands.append([])
    return commands


def _goes_before(word: str) -> bool:
    return word in _BEFORE or _ALSO_BEFORE.fullmatch(word) is not None


ANY_SOCKET: Final = -1

_WITH_VALUE: Final = frozenset(("--pool", "--socket-id", "--conf-dir"))
_NUMBER: Final = re.compile(r"-1|\d{1,4}", re.ASCII)
# What an image without a command of its own is started with, if its arguments are those of a shell.
_SHELL: Final = "/bin/sh"
_POOL: Final = "STP_POOL"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSelection:
    """The pool that a container selects. `command` replaces its command and arguments; None: they stay."""

    pool: str = ""  # empty: it names none
    socket: int = ANY_SOCKET
    no_affinity: bool = False
    command: tuple[str, ...] | None = None


NOTHING: Final = PoolSelection()


def read_pool_selection(request: Request, recorded: PoolSelection = NOTHING) -> PoolSelection:
    """The command line, then the variables: what comes later wins.

    `recorded` is the selection of the container when it was created. It counts in the place of the command, which
    runtimes do not report for containers that run.
    """
    selection = recorded
    if request.command or request.args:
        selection = _from_command(request.command, request.args, known=bool(request.envs.get(_POOL)))
    return _from_envs(selection, request.envs)


def _from_envs(selection: PoolSelection, envs: Mapping[str, str]) -> PoolSelection:
    if pool := envs.get(_POOL):
        selection = replace(selection, pool=pool)
    if text := envs.get("STP_SOCKET_ID"):
        selection = replace(selection, socket=parse_socket(text, "variable STP_SOCKET_ID"))
    return replace(selection, no_affinity=True) if "STP_NO_AFFINITY" in envs else selection


def _from_command(command: tuple[str, ...], args: tuple[str, ...], *, known: bool) -> PoolSelection:
    """`known`: a variable names the pool, so that text which only reads like a call can be left alone."""
    words = (*command, *args)
    pairs = [at for at, (word, after) in enumerate(pairwise(words)) if after == ISOLATE and PROGRAM.fullmatch(word)]
    if pairs and (pairs[0] == 0 or (command and words[pairs[0] - 1] == "--")):
        return _from_words(words, pairs[0])
    found = {index: find_calls(text) for index, text in enumerate(words)}
    calling = [index for index, calls in found.items() if calls.calls]
    count = sum(len(found[index].calls) for index in calling)
    if count > 1:
        raise ValueError(f"{quoted(words[calling[0]])} calls cmk isolate {count} times, a container has one pool")
    if calling:
        index = calling[0]
        options, rest = _from_script(words[index], found[index].calls[0])
        replaced = (*words[:index], rest, *words[index + 1 :])
        return _make_selection(options, replaced if command else _with_shell(replaced, index))
    ambiguous = [" ".join(words[max(at - 1, 0) : at + 3]) for at in pairs]
    ambiguous += [words[index] for index, calls in found.items() if calls.ambiguous]
    if ambiguous and not known:
        raise ValueError(
            f"the command: {quoted(ambiguous[0])} has cmk isolate where no command begins, so nobody can tell what is "
            f"meant; put it at the start, or name the pool in variable {_POOL}"
        )
    return NOTHING


def _from_words(words: tuple[str, ...], at: int) -> PoolSelection:
    options, used = _options(words[at + 2 :])
    return _make_selection(options, (*words[:at], *_program_words(words[at + 2 + used :])))


def _from_script(text: str, call: CmkCall) -> tuple[Mapping[str, str], str]:
    """The options of a call inside a text, and the text without the call."""
    words = call.words
    options, used = _options(tuple(word.value for word in words))
    if used == len(words):
        raise ValueError(f"{quoted(text)}: cmk isolate has no program to start")
    begin, rest = words[used].start, ""
    # `cmk isolate --pool=P program -- args` is a form of it too.
    if used + 1 < len(words) and words[used + 1].text == "--":
        begin, rest = words[used + 1].end, words[used].text
    return options, text[: call.start] + rest + text[begin:]


def _program_words(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words:
        raise ValueError("the command: cmk isolate has no program to start")
    return (words[0], *words[2:]) if words[1:2] == ("--",) else words


def _with_shell(words: tuple[str, ...], index: int) -> tuple[str, ...]:
    """Arguments of an image's own command, which is not known here and which our command replaces."""
    if index == 0:
        return (_SHELL, "-c", *words)
    return (_SHELL, *words) if words[0].startswith("-") else words


def _options(words: tuple[str, ...]) -> tuple[Mapping[str, str], int]:
    """Options in front of the program, and how many words they are. Unknown ones do nothing."""
    found: dict[str, str] = {}
    position = 0
    while position < len(words) and words[position].startswith("-"):
        name, equals, value = words[position].partition("=")
        position += 1
        if name == "--":
            break
        if name in _WITH_VALUE and not equals:
            value = words[position] if position < len(words) else ""
            position += 1
        found[name] = value.strip("'\"")
    return found, min(position, len(words))


def _make_selection(options: Mapping[str, str], command: tuple[str, ...]) -> PoolSelection:
    pool = options.get("--pool", "")
    if not pool:
        raise ValueError("the command: cmk isolate needs --pool with the name of a pool")
    socket = ANY_SOCKET
    if text := options.get("--socket-id"):
        socket = parse_socket(text, "the command: cmk isolate --socket-id")
    return PoolSelection(pool=pool, socket=socket, no_affinity="--no-affinity" in options, command=command)


def parse_socket(text: str, where: str) -> int:
    """The number of a socket; ValueError that names where it stands."""
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{where}: expected the number of a socket, or -1 for any, found {quoted(text)}")
    return int(text)
