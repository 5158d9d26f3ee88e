"""Command lines. Each command module is one short composition root; nothing here decides anything else.

`interpose` loads the module of a subcommand only when that subcommand is asked for.
"""
