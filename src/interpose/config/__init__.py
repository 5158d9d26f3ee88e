"""Settings: what they are (settings, table), how text becomes values (values), where they come from (load).

Strings are parsed once, here at the edge. Nothing below `cli` reads the environment or a flag by itself.
"""
