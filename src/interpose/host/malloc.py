"""How the C library treats memory that is freed.

glibc gives a large block back to the system when it is freed, but after the first one of some size it keeps all up to
that size for later, up to 32 MiB each: a process that once had a large message keeps several times its size.
"""

import ctypes
from typing import Final

_TRIM: Final = -1  # M_TRIM_THRESHOLD
_MMAP: Final = -3  # M_MMAP_THRESHOLD


def give_back_blocks(size: int) -> bool:
    """Blocks of this size or more are given back as soon as they are free; False if this C library has no such setting.

    Four times as much may stay free in small pieces: giving those back each time would cost more than it saves.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_MMAP, size)) and bool(mallopt(_TRIM, 4 * size))
