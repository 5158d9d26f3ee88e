"""Recorded calls once more: made again at a runtime, or answered as the runtime answered them.

`selection`, `plan`, `ids`, `adapting`, `expectations` and `report` decide what is made again and what came of it;
`caller` makes the calls. `answers` finds the recorded answer to a request; `serving` gives it. All but `caller` and
`serving` are pure: they see messages as objects and are given whoever parses them.
"""
