"""Signals by name and number, as CRI, images and people write them. Pure.

Numbers are Linux' own, the same on all machines this runs on.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

TERM: Final = 15
KILL: Final = 9
_NAMES: Final = (
    "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG "
    "XCPU XFSZ VTALRM PROF WINCH IO PWR SYS"
)
_ALIASES: Final = {"IOT": 6, "CLD": 17, "POLL": 29, "UNUSED": 31}
_FIRST_REAL_TIME: Final = 34
_LAST_REAL_TIME: Final = 64
NUMBERS: Final[Mapping[str, int]] = MappingProxyType(
    {name: number for number, name in enumerate(_NAMES.split(), start=1)} | _ALIASES
)


def number(text: str) -> int:
    """The number of a signal: TERM, SIGTERM, 15, RTMIN+3, RTMAX-2. ValueError that names it if there is none."""
    name = text.strip().upper().removeprefix("SIG")
    if name.isascii() and name.isdigit():
        found = int(name)
    elif name in NUMBERS:
        found = NUMBERS[name]
    else:
        found = _real_time(name)
    if not 1 <= found <= _LAST_REAL_TIME:
        raise ValueError(f"{text!r} is not a signal")
    return found


def _real_time(name: str) -> int:
    """RTMIN, RTMIN+n, RTMAX, RTMAX-n, also as CRI spells them (RTMINPLUS3, RTMAXMINUS2); 0 if it is none of them."""
    plain = name.replace("PLUS", "+").replace("MINUS", "-")
    for base, start, sign in (("RTMIN", _FIRST_REAL_TIME, "+"), ("RTMAX", _LAST_REAL_TIME, "-")):
        if plain == base:
            return start
        head, found, offset = plain.partition(sign)
        if head == base and found and offset.isascii() and offset.isdigit():
            result = start + int(f"{sign}{offset}")
            return result if result >= _FIRST_REAL_TIME else 0
    return 0


def stop_signal(wanted: str, of_image: str) -> int:
    """The stop signal of a container: CRI's name (SIGNAL_SIGUSR1), else the image's, else TERM.

    An image with an unknown signal is not refused: TERM then.
    """
    name = wanted.removeprefix("SIGNAL_")
    if name and name != "RUNTIME_DEFAULT":
        return number(name)
    try:
        return number(of_image) if of_image else TERM
    except ValueError:
        return TERM
