"""The handful of exceptions that callers catch and act on.

A class lives here only if the catcher does something different for it; everything else is a builtin exception.
"""


class ConfigError(Exception):
    """Settings cannot be used: refuse at start (exit code 78); at run time keep what was in force.

    Each problem names where it was found (file, key or flag) and the offending value.
    """

    def __init__(self, problems: "list[str] | str") -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("; ".join(self.problems))


class NotReadyError(ConfigError):
    """A configuration without mistakes that cannot be applied at the moment: its sender tries again."""


class SocketInUseError(Exception):
    """Another live process serves this socket; it is never displaced."""

    def __init__(self, path: str, pid: int | None) -> None:
        self.path = path
        self.pid = pid
        super().__init__(describe_owner(path, pid))


def describe_owner(path: str, pid: int | None) -> str:
    """A text that names the holder of a socket, for operators."""
    if pid is None:
        return f"socket {path} is in use by a process that is just starting or stopping"
    if pid == 1:
        return f"socket {path} is in use by PID 1: systemd holds it for socket activation, stop its .socket unit"
    return f"socket {path} is in use by PID {pid}"
