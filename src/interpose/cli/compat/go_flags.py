"""Command lines as Go programs take them: -flag value, -flag=value, --flag value, --flag=value.

Pure. For the drop-in commands, which must accept the command lines of existing unit files.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from interpose.core.model.text import closest_flag


@dataclass(frozen=True, slots=True, kw_only=True)
class GoFlags:
    """What was given: values by flag name (the last one counts), bare words such as help, and what is wrong."""

    values: dict[str, str] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


def parse_go_flags(
    arguments: Sequence[str],
    *,
    flags: Collection[str],
    words: Collection[str],
    elsewhere: Callable[[str], str] = lambda _flag: "",
) -> GoFlags:
    """Split a command line. `flags` take a value, `words` take none; `elsewhere` has advice about any other flag."""
    parsed = GoFlags()
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument.removeprefix("-").removeprefix("-").partition("=")
        if argument == "--":
            parsed.problems.extend(f"unexpected argument {word!r}" for word in rest)
            break
        if not argument.startswith("-") or not name:
            parsed.problems.append(f"unexpected argument {argument!r}")
        elif name in words and not equals:
            parsed.words.add(name)
        elif name in words:
            parsed.problems.append(f"flag --{name} takes no value")
        elif name not in flags:
            close = closest_flag(name.lstrip("-"), [*flags, *words])
            advice = f", did you mean --{close}?" if close else elsewhere(name)
            parsed.problems.append(f"unknown flag --{name}{advice}")
            if not equals and rest and not rest[0].startswith("-"):
                rest.pop(0)  # what was meant as its value
        elif equals or rest:
            parsed.values[name] = value if equals else rest.pop(0)
        else:
            parsed.problems.append(f"flag --{name} needs a value")
    return parsed
