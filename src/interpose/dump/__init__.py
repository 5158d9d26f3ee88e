"""Seeing the traffic: what passes the relay as frames, and everything that is made of them.

The relay's side (`tap`, `outlet`, `scribe`) copies what passes into frames and hands them on; it never decodes a
message. Everything else works on frames, in other processes: the scribe that writes dumps and recordings, and the
commands that show, filter and replay them.
"""
