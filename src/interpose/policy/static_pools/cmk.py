"""What a container says about the pool it wants: CMK's command line, and variables, which win.

CMK started programs itself: `cmk isolate --pool=P [--socket-id=N] [--no-affinity] [--conf-dir=D] [--] program args`.
Nothing of that is needed any more, so the call is taken out of the command and only the program is left. It is found
at the start of the command, with any path before `cmk`, or where a command can start inside one argument, as in
`sh -c "cmk isolate ..."`; there everything else of the text stays as it is. Text that cannot be understood is a
ValueError that names it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from interpose.model.text import quoted
from interpose.policy.request import Request

ANY_SOCKET: Final = -1

_PROGRAM: Final = re.compile(r"(?:[^\s;&|()'\"]*/)?cmk")
# In a script: at its start or behind something that ends a command.
_CALL: Final = re.compile(
    r"(?:^|(?<=[;&|(\n]))[ \t]*(?:exec[ \t]+)?(?P<call>(?:[^\s;&|()'\"]*/)?cmk\s+isolate)(?=\s|$)"
)
_WORD: Final = re.compile(r"\s*(?P<word>(?:[^\s'\"]|'[^']*'|\"[^\"]*\")+)")
_WITH_VALUE: Final = frozenset(("--pool", "--socket-id", "--conf-dir"))
_NUMBER: Final = re.compile(r"-1|\d{1,4}", re.ASCII)
# What an image without a command of its own is started with, if its arguments are those of a shell.
_SHELL: Final = "/bin/sh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a container wants. `command` replaces its command and arguments; None: they stay."""

    pool: str = ""  # empty: nothing was said
    socket: int = ANY_SOCKET
    no_affinity: bool = False
    command: tuple[str, ...] | None = None


def read_wish(request: Request) -> Wish:
    """The command line, then the variables: what comes later wins."""
    return _from_envs(_from_command(request.command, request.args), request.envs)


def _from_envs(wish: Wish, envs: Mapping[str, str]) -> Wish:
    if pool := envs.get("STP_POOL"):
        wish = replace(wish, pool=pool)
    if text := envs.get("STP_SOCKET_ID"):
        wish = replace(wish, socket=_socket(text, "variable STP_SOCKET_ID"))
    return replace(wish, no_affinity=True) if "STP_NO_AFFINITY" in envs else wish


def _from_command(command: tuple[str, ...], args: tuple[str, ...]) -> Wish:
    words = (*command, *args)
    if len(words) > 1 and _PROGRAM.fullmatch(words[0]) and words[1] == "isolate":
        options, used = _options(words[2:])
        return _wish(options, _program(words[2 + used :]))
    for index, text in enumerate(words):
        calls = list(_CALL.finditer(text))
        if len(calls) > 1:
            raise ValueError(f"{quoted(text)} calls cmk isolate {len(calls)} times, a container has one pool")
        if calls:
            options, rest = _in_script(text, calls[0])
            replaced = (*words[:index], rest, *words[index + 1 :])
            return _wish(options, replaced if command else _with_shell(replaced, index))
    return Wish()


def _in_script(text: str, call: re.Match[str]) -> tuple[Mapping[str, str], str]:
    """The options of a call inside a text, and the text without the call."""
    words = list(_WORD.finditer(text, call.end()))
    options, used = _options(tuple(word["word"] for word in words))
    if used == len(words):
        raise ValueError(f"{quoted(text)}: cmk isolate has no program to start")
    begin, rest = words[used].start("word"), ""
    # `cmk isolate --pool=P program -- args` is a form of it too.
    if used + 1 < len(words) and words[used + 1]["word"] == "--":
        begin, rest = words[used + 1].end(), words[used]["word"]
    return options, text[: call.start("call")] + rest + text[begin:]


def _program(words: tuple[str, ...]) -> tuple[str, ...]:
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
        name, given, value = words[position].partition("=")
        position += 1
        if name == "--":
            break
        if name in _WITH_VALUE and not given:
            value = words[position] if position < len(words) else ""
            position += 1
        found[name] = value.strip("'\"")
    return found, min(position, len(words))


def _wish(options: Mapping[str, str], command: tuple[str, ...]) -> Wish:
    pool = options.get("--pool", "")
    if not pool:
        raise ValueError("the command: cmk isolate needs --pool with the name of a pool")
    socket = ANY_SOCKET
    if text := options.get("--socket-id"):
        socket = _socket(text, "the command: cmk isolate --socket-id")
    return Wish(pool=pool, socket=socket, no_affinity="--no-affinity" in options, command=command)


def _socket(text: str, where: str) -> int:
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{where}: expected the number of a socket, or -1 for any, found {quoted(text)}")
    return int(text)
