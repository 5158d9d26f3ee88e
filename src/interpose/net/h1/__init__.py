"""HTTP/1.1 as a transparent proxy needs it: bytes in, checked heads and pieces of bodies out, as the bytes they came.

Pure: no sockets, no clock, no logging, no asyncio. Nothing is passed on that the next
reader might understand in another way: `rules` says what is refused, and h11 checks it as well.
"""
