"""HTTP/1.1 as a transparent proxy needs it: bytes in, checked heads and pieces of bodies out, as the bytes they came.

Pure: no sockets, no clock, no logging, no asyncio. Nothing is given out that is not known to be read the same way by
whoever comes next: `rules` says what is refused, h11 is asked as well.
"""
