"""The Huffman code of HPACK (RFC 7541 appendix B), decoding only.

The code is canonical: codes of one length are consecutive and follow the order of the symbols, so the lengths say it
all. We never encode with it: strings that arrive Huffman-coded are passed on as they came.

Decoding walks a byte-at-a-time automaton. A state is the unfinished prefix of a code; its transitions are worked out
when first met and kept. There are at most 256 states with 256 transitions each, and real traffic meets a few hundred.
"""

from typing import Final

# Length in bits of the code of each symbol 0..255; the last one is EOS.
_LENGTHS: Final = (
    [13, 23] + [28] * 7 + [24, 30, 28, 28, 30] + [28] * 8 + [30] + [28] * 9
    + [6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6]
    + [5, 5, 5] + [6] * 7 + [7, 8, 15, 6, 12, 10]
    + [13, 6] + [7] * 22 + [8, 7, 8, 13, 19, 13, 14, 6]
    + [15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28]
    + [20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23]
    + [24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24]
    + [22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23]
    + [21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23]
    + [26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25]
    + [19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27]
    + [20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23]
    + [26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26]
    + [30]
)  # fmt: skip
_EOS: Final = 256


def _codes() -> dict[tuple[int, int], int]:
    """(length, code) -> symbol, from the lengths alone."""
    table: dict[tuple[int, int], int] = {}
    code = 0
    previous = 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(_LENGTHS)):
        code <<= length - previous
        table[length, code] = symbol
        code += 1
        previous = length
    return table


def encode(text: bytes) -> bytes:
    """The Huffman form of a string. For tests and load clients: the relay itself never calls it."""
    forms = {symbol: (length, code) for (length, code), symbol in _codes().items()}
    bits = 0
    count = 0
    for byte in text:
        length, code = forms[byte]
        bits = bits << length | code
        count += length
    padding = -count % 8
    return (bits << padding | (1 << padding) - 1).to_bytes((count + padding) // 8, "big")


class HuffmanError(Exception):
    """The bytes are not a Huffman-coded string."""


class HuffmanDecoder:
    """Decodes strings; share one per process, its automaton grows to a bounded size."""

    def __init__(self) -> None:
        self._codes = _codes()
        self._states: list[tuple[int, int]] = [(0, 0)]  # state number -> (bits so far, their value)
        self._numbers: dict[tuple[int, int], int] = {(0, 0): 0}
        self._steps: dict[int, tuple[int, bytes]] = {}  # state * 256 + byte -> (new state * 256, symbols)

    def decode(self, raw: bytes) -> bytes:
        """The string, or HuffmanError: an unknown code, EOS inside, or padding that is not a short run of ones."""
        steps = self._steps
        out = []
        state = 0
        for byte in raw:
            step = steps.get(state + byte)
            if step is None:
                step = self._explore(state, byte)
            state = step[0]
            out.append(step[1])
        bits, value = self._states[state >> 8]
        if bits > 7 or value != (1 << bits) - 1:
            raise HuffmanError("padding is not a short run of ones")
        return b"".join(out)

    def _explore(self, state: int, byte: int) -> tuple[int, bytes]:
        bits, value = self._states[state >> 8]
        symbols = bytearray()
        for shift in range(7, -1, -1):
            value = value << 1 | (byte >> shift & 1)
            bits += 1
            symbol = self._codes.get((bits, value))
            if symbol is not None:
                if symbol == _EOS:
                    raise HuffmanError("EOS inside a string")
                symbols.append(symbol)
                bits = value = 0
        number = self._numbers.setdefault((bits, value), len(self._states))
        if number == len(self._states):
            self._states.append((bits, value))
        step = (number << 8, bytes(symbols))
        self._steps[state + byte] = step
        return step
