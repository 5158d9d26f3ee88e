"""Logging set-up: stdlib logging, written to stderr as klog text or JSON lines.

Structured fields travel as `extra=kv(pod="a/b")`. Messages start with a capital letter, are in the past tense and
carry no values; values go into fields. Secrets never do: metadata of calls is logged through `redacted` only, and
message bodies are not logged at all.

Invariant: logging never raises into the caller and never makes it wait. Under systemd stderr is a socket to journald,
elsewhere often a pipe; a reader that hangs must not stop the calls of a node. So a line is written only if the
descriptor takes it at once. A line that cannot be written is counted.
"""

import logging
import os
import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Final, Protocol

# What POSIX calls PIPE_BUF on Linux: a pipe that polls writable has room for so much.
_PIECE: Final = 4096


class UnblockedText:
    """A text stream over a descriptor that never waits. The descriptor's own flags stay: others may share them."""

    def __init__(self, fd: int = 2) -> None:
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def write(self, text: str) -> int:
        """Write all of it, or raise OSError at the first piece that would have to wait."""
        data = text.encode("utf-8", "backslashreplace")
        for start in range(0, len(data), _PIECE):
            if not any(events & select.POLLOUT for _, events in self._poll.poll(0)):
                raise BlockingIOError(f"descriptor {self._fd} does not take more now")
            os.write(self._fd, data[start : start + _PIECE])
        return len(text)

    def flush(self) -> None:
        """Nothing: `write` does not buffer."""


_log = logging.getLogger(__name__)
_PACKAGE = Path(__file__).parent

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_SEVERITY = {logging.DEBUG: "I", logging.INFO: "I", logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "F"}
# klog has verbosity instead of a debug level; 4 is what Kubernetes calls "debug".
_DEBUG_VERBOSITY = 4
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SECRET_NAMES = ("authorization", "cookie", "token", "secret", "password", "credential", "api-key")

_EVERYTHING = "*"


class TextStream(Protocol):
    """A text stream for log lines."""

    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...


def kv(**fields: object) -> dict[str, dict[str, object]]:
    """Structured fields for a log call: `log.info("Backend connected", extra=kv(endpoint=path))`."""
    return {"kv": fields}


def redacted(metadata: Mapping[str, str]) -> dict[str, str]:
    """Call metadata that may be logged: names stay, values of secrets and binary values do not."""
    return {name: "<redacted>" if is_secret(name) else value for name, value in metadata.items()}


def is_secret(name: str) -> bool:
    """Whether the value of this metadata key must not be shown. Binary keys can hold anything, so they count."""
    lowered = name.lower()
    return lowered.endswith("-bin") or any(word in lowered for word in _SECRET_NAMES)


def quote_value(text: str) -> str:
    """Text in double quotes on one line; what is not printable is escaped, so that no value can forge a log line."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_ESCAPES.get(char) or (char if char.isprintable() else _escape(char)) for char in text) + '"'


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class TextFormatter(logging.Formatter):
    """`I0528 19:15:22.737538   47512 file.py:52] "Message" key="value"`, as klog writes it."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; a traceback follows indented, so that a line of it never looks like a record."""
        severity = _SEVERITY.get(record.levelno, "I")
        moment = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
        micros = int(record.created % 1 * 1_000_000)
        file = PurePath(record.pathname).name
        head = f"{severity}{moment}.{micros:06d} {record.process or 0:7d} {file}:{record.lineno}] "
        line = head + quote_value(record.getMessage())
        for name, value in _fields(record).items():
            line += "".join(f" {key}={_text_value(inner)}" for key, inner in _flat(name, value))
        if record.exc_info:
            line += "\n  " + self.formatException(record.exc_info).replace("\n", "\n  ")
        return line


def _flat(name: str, value: object) -> Iterator[tuple[str, object]]:
    """A group of values as several fields: `containers.running=1`. Names that are not identifiers stay in quotes."""
    if isinstance(value, Mapping) and all(str(inner).isidentifier() for inner in value):
        for inner, item in value.items():
            yield from _flat(f"{name}.{inner}", item)
    else:
        yield name, value


def _text_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping):
        value = [f"{name}={item}" for name, item in value.items()]
    if isinstance(value, list | tuple):
        return quote_value(", ".join(str(item) for item in value))
    return "null" if value is None else quote_value(str(value))


class JsonFormatter(logging.Formatter):
    """One JSON object per line: ts (seconds), level, v, logger, caller, msg, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Fields that collide with one of our names get an underscore behind; nothing is lost."""
        import json  # a text log never needs it

        line: dict[str, object] = {
            "ts": round(record.created, 6),
            "level": record.levelname.lower(),
            "v": _DEBUG_VERBOSITY if record.levelno < logging.INFO else 0,
            "logger": record.name,
            "caller": f"{PurePath(record.pathname).name}:{record.lineno}",
            "msg": record.getMessage(),
        }
        for name, value in _fields(record).items():
            line[f"{name}_" if name in line else name] = _json_value(value)
        if record.exc_info:
            line["stacktrace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def _json_value(value: object) -> object:
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON has neither NaN nor infinity
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(name): _json_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(inner) for inner in value]
    return str(value)


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    fields = getattr(record, "kv", None)
    return fields if isinstance(fields, Mapping) else {}


class LineHandler(logging.Handler):
    """Writes lines to a stream and counts those it could not write, since there is nowhere left to report it."""

    def __init__(self, stream: TextStream) -> None:
        super().__init__()
        self.stream = stream
        self.dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; a closed pipe, a full disk or an unprintable argument costs this line only."""
        try:
            self.stream.write(self.format(record) + "\n")
            self.stream.flush()
        except Exception:  # the caller is on the data path
            self.dropped += 1


class LogControl:
    """Handle on the logging that `setup` installed; owns the handler until `close`."""

    def __init__(self, logger: logging.Logger, handler: LineHandler) -> None:
        self._logger = logger
        self._handler = handler
        self._before = logger.level
        self._debugged: list[logging.Logger] = []
        self._quiet: list[logging.Logger] = []  # parts of those above that keep to the level

    @property
    def level(self) -> str:
        """The level in force, by name."""
        return next(name for name, number in LEVELS.items() if number == self._logger.level)

    @property
    def dropped(self) -> int:
        """Lines that could not be written."""
        return self._handler.dropped

    def set_level(self, level: str) -> None:
        """Change the level at run time; an unknown name is a ValueError."""
        if level not in LEVELS:
            raise ValueError(f"log level {level!r} is not one of {', '.join(LEVELS)}")
        for logger in (self._logger, *self._quiet):
            logger.setLevel(LEVELS[level])

    def debug(self, sources: Sequence[str]) -> None:
        """Log everything of these packages and modules of ours, whatever the level.

        `*` is all of them, and one with a dash before its name keeps to the level.
        """
        for source in sources:
            name = source.removeprefix("-")
            path = _PACKAGE.joinpath(*name.split("."))
            if name != _EVERYTHING and not path.is_dir() and not path.with_suffix(".py").is_file():
                _log.warning("Log source is unknown and has no effect", extra=kv(source=source + _suggestion(name)))
                continue
            logger = self._logger.getChild(_PACKAGE.name if name == _EVERYTHING else f"{_PACKAGE.name}.{name}")
            logger.setLevel(logging.DEBUG if name == source else self._logger.level)
            (self._debugged if name == source else self._quiet).append(logger)

    def close(self) -> None:
        """Take the handler off again; the level is what it was."""
        for logger in (*self._debugged, *self._quiet):
            logger.setLevel(logging.NOTSET)
        self._logger.removeHandler(self._handler)
        self._logger.setLevel(self._before)
        self._handler.close()


def setup(
    level: str,
    format: str,  # noqa: A002 - the setting's name
    stream: TextStream | None = None,
    *,
    debug: Sequence[str] = (),
) -> LogControl:
    """Send all logging of this process to stderr (or `stream`) and return the handle to change or undo it.

    `debug` are packages and modules of which everything is logged.
    """
    handler = LineHandler(UnblockedText() if stream is None else stream)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    control = LogControl(root, handler)
    control.set_level(level)
    root.addHandler(handler)
    control.debug(debug)
    return control


class RateLimited:
    """Logs the same event at most `burst` times per interval and says how many repeats were left out.

    Used for errors that come per call: a backend that is down must not fill the disk. Keys are bounded; when there
    are too many, the one logged longest ago is forgotten, which at worst logs it once more.
    """

    def __init__(
        self,
        logger: logging.Logger,
        *,
        interval: float = 60.0,  # seconds; the kubelet's own rate for identical errors
        burst: int = 1,
        clock: Callable[[], float] = time.monotonic,
        max_keys: int = 256,
    ) -> None:
        self._logger = logger
        self._interval = interval
        self._burst = burst
        self._clock = clock
        self._max_keys = max_keys
        # Key -> begin of the interval, logged in it, suppressed since; the one logged longest ago is the first.
        self._seen: dict[str, tuple[float, int, int]] = {}

    def log(self, level: int, message: str, *, key: str = "", **fields: object) -> bool:
        """Log unless the same message and key were logged often enough in the interval; says whether it was."""
        now = self._clock()
        name = f"{message}\0{key}"
        begin, logged, suppressed = self._seen.get(name, (now, 0, 0))
        if now - begin >= self._interval:
            begin, logged = now, 0
        if logged >= self._burst:
            self._seen[name] = (begin, logged, suppressed + 1)
            return False
        self._seen.pop(name, None)
        self._seen[name] = (begin, logged + 1, 0)
        if len(self._seen) > self._max_keys:
            del self._seen[next(iter(self._seen))]
        if suppressed:
            fields["suppressed"] = suppressed
        self._logger.log(level, message, extra={"kv": fields}, stacklevel=2)
        return True


def _suggestion(source: str) -> str:
    import difflib  # only a mistake needs it

    close = difflib.get_close_matches(source, [path.stem for path in _PACKAGE.iterdir()], n=1)
    return f", did you mean {close[0]}?" if close else ""
