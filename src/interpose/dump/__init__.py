"""Seeing the traffic: what passes the relay as frames, and everything that is made of them.

The relay's side (`capture.tap`, `capture.queue`, `capture.supervisor`) copies what passes into frames and hands them
on; it never decodes a message. Everything else works on frames, in other processes: the dump worker that writes dumps
and recordings, and the commands that show, filter and replay them.
"""
