"""The command line of runc, as far as this runtime uses it. No IO."""

TYPE_CHECKING = False  # importing typing costs more than this program does
if TYPE_CHECKING:
    from collections.abc import Sequence

# Flags with a value, by verb; "" is before the verb. Others are refused: a flag must not be ignored.
_VALUES = {
    "": {"--root", "--log", "--log-format", "--cgroup-root"},
    "run": {"--bundle", "-b", "--pid-file", "--console-socket"},
    "exec": {"--process", "-p", "--pid-file", "--console-socket"},
    "kill": set(),
    "delete": set(),
    "update": {"--resources", "-r"},
    "state": set(),
    "features": set(),
}
_SWITCHES = {
    "": {"--systemd-cgroup", "--debug"},
    "run": {"--detach", "-d", "--no-new-keyring"},
    "exec": {"--detach", "-d", "--tty", "-t"},
    "kill": {"--all", "-a"},
    "delete": {"--force", "-f"},
    "update": set(),
    "state": set(),
    "features": set(),
}
_LONG = {"-b": "--bundle", "-p": "--process", "-r": "--resources", "-d": "--detach", "-t": "--tty"}
_LONG |= {"-a": "--all", "-f": "--force"}


class UsageError(Exception):
    """The command line cannot be understood."""


class CommandLine:
    """A parsed command line: the verb, its flags by their long name without dashes, and the other words."""

    __slots__ = ("flags", "rest", "verb")

    def __init__(self, verb: str, flags: dict[str, str], rest: list[str]) -> None:
        self.verb = verb
        self.flags = flags
        self.rest = rest

    def flag(self, name: str) -> str:
        """The value of a required flag; UsageError without it."""
        try:
            return self.flags[name]
        except KeyError:
            raise UsageError(f"{self.verb} needs --{name}") from None

    def container(self) -> str:
        """The id of the container; UsageError without a valid one."""
        if not self.rest or "/" in self.rest[0] or self.rest[0] in ("", ".", ".."):
            raise UsageError(f"{self.verb} needs the id of a container")
        return self.rest[0]


def parse(argv: "Sequence[str]") -> CommandLine:
    """Parse a command line; UsageError names the bad word."""
    verb, flags, rest = "", {}, []
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if not word.startswith("-") or word == "-":
            if verb:
                rest.append(word)
            elif word in _VALUES:
                verb = word
            else:
                raise UsageError(f"no such command: {word}")
        elif name in _VALUES[verb]:
            if not equals:
                try:
                    value = next(words)
                except StopIteration:
                    raise UsageError(f"{word} needs a value") from None
            flags[_LONG.get(name, name)[2:]] = value
        elif word in _SWITCHES[verb]:
            flags[_LONG.get(word, word)[2:]] = ""
        else:
            raise UsageError(f"no such flag{f' of {verb}' if verb else ''}: {word}")
    if not verb:
        raise UsageError("no command given")
    return CommandLine(verb, flags, rest)
