"""Output of containers as CRI's log lines. No IO.

A line is `2016-10-06T00:17:09.669794202Z stdout F text`; F ends a line, P is a part of one that is longer than the
limit, or the last words of a program that did not end its line. A carriage return before the end of a line belongs to
the end, as on containerd: a terminal adds it to each line. Times are those of reading.
"""

import time

LINE_LIMIT = 16 << 10


def stamp(at_ns: int) -> bytes:
    """A time as logs have it."""
    seconds, rest = divmod(at_ns, 1_000_000_000)
    return b"%s.%09dZ" % (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode(), rest)


class LogLines:
    """Cuts the bytes of one stream into lines. What has no end yet is kept, at most one line's limit of it."""

    def __init__(self, stream: str, limit: int = LINE_LIMIT) -> None:
        self._full = b" " + stream.encode() + b" F "
        self._part = b" " + stream.encode() + b" P "
        self._limit = limit
        self._rest = b""

    def feed(self, data: bytes, at_ns: int) -> bytes:
        """The log lines that these bytes complete; may be empty."""
        at = stamp(at_ns)
        *lines, rest = (self._rest + data).split(b"\n")
        head = at + self._full
        parts = at + self._part
        out = []
        for line in lines:
            line = line.removesuffix(b"\r")
            while len(line) > self._limit:
                out.append(parts + line[: self._limit])
                line = line[self._limit :]
            out.append(head + line)
        while len(rest) > self._limit:
            out.append(parts + rest[: self._limit])
            rest = rest[self._limit :]
        self._rest = rest
        return b"\n".join([*out, b""]) if out else b""

    def end(self, at_ns: int) -> bytes:
        """What is left without an end of line, as a part: whoever reads the log shows no end that was not there."""
        rest, self._rest = self._rest, b""
        return stamp(at_ns) + self._part + rest + b"\n" if rest else b""
