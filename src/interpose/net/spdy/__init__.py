"""SPDY/3.1 without IO: bytes in, frames and bytes out."""
