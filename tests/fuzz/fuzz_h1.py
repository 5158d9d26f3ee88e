"""Fuzz the HTTP/1.1 readers: bytes of all kinds against the promises in `tests.support.fuzz.h1`.

    python tests/fuzz/fuzz_h1.py --seconds 60 [--target requests] [--seed 7] [--crashes FOLDER]
    python tests/fuzz/fuzz_h1.py --replay crash-requests-0123abcd.bin

With atheris installed it is guided by coverage; otherwise inputs are mutations of the corpus, from a seed that is
printed. A broken promise is written to a file, named, and the exit code is 1.
"""

import json
import sys
from pathlib import Path

from tests.support.fuzz.h1 import TARGETS
from tests.support.fuzz.loop import Fuzzer, Mutator

CORPUS = Path(__file__).resolve().parent.parent / "data/h1corpus"
LONGEST = 8000  # the promises are checked with small limits
# What smuggling is made of.
WORDS = (
    b"\r\n", b"\r", b"\n", b"\r\n\r\n", b"\n\n", b" ", b"\t", b"\x00", b"\x01", b"\x0b", b"\x0c", b"\x7f", b"\xff",
    b":", b",", b";", b"%", b"?", b"204", b"304", b"101", b"+5", b"-5", b"0x5", b"5 ", b"X: y\r\n",
    b"chunked", b"identity",
    b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"content-length:", b"Transfer-Encoding: chunked\r\n",
    b"transfer-encoding:", b"Host: x\r\n", b"Connection: close\r\n", b"Expect: 100-continue\r\n",
    b"Upgrade: h2c\r\n", b"HTTP/1.1", b"HTTP/1.0", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n", b"0\r\n\r\n", b"5\r\nhello\r\n", b"0\r\n", b"5;a=b\r\nhello\r\n",
    b"ffffffffffffffff\r\n", b"X" * 600, b"X: " + b"y" * 900 + b"\r\n",
)  # fmt: skip


def seeds(target: str) -> list[bytes]:
    """Where mutation starts from. The files that are made to be long are left out: cut, they teach nothing."""
    index = json.loads((CORPUS / "index.json").read_text())
    kind = "request" if target == "requests" else "answer"
    mark = b"" if target == "requests" else b"\x00"
    files = [(CORPUS / f"{name}.bin").read_bytes() for name, case in sorted(index.items()) if case["kind"] == kind]
    return [mark + data for data in files if len(data) < LONGEST]


class Words(Mutator):
    """Beside blind changes, words that mean something somewhere else."""

    def next(self) -> bytes:
        """One input: some messages after each other, changed here and there."""
        rng = self.rng
        data = self.changed(b"".join(rng.choice(self.seeds) for _ in range(rng.choice((1, 1, 1, 2, 3)))))
        if self.target == "answers":
            data = bytes((rng.randrange(4),)) + data[1:]
        return data

    def change(self, data: bytes) -> bytes:
        """One change."""
        rng = self.rng
        match rng.randrange(8):
            case 0:  # beside a line end, where it counts
                lines = data.split(b"\r\n")
                number = rng.randrange(len(lines))
                lines[number] = rng.choice((lines[number] + rng.choice(WORDS), rng.choice(WORDS) + lines[number]))
                return b"\r\n".join(lines)
            case 1:
                at, word = rng.randrange(len(data) + 1), rng.choice(WORDS)
                return data[:at] + word + data[at + rng.choice((0, len(word))) :]
            case 2:  # a line end of another kind
                return data.replace(b"\r\n", rng.choice((b"\n", b"\r", b"\r\r\n", b"\r\n ")), rng.randrange(1, 4))
            case _:
                return super().change(data)


FUZZER = Fuzzer(
    targets=TARGETS,
    seeds=seeds,
    longest=LONGEST,
    mutator=Words,
    faultless=lambda outcome: outcome.status is None,
)

if __name__ == "__main__":
    sys.exit(FUZZER.run(__doc__ or ""))
