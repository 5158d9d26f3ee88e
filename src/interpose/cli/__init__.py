"""Programs: click commands and one composition root per daemon.

`interpose` loads the module of a subcommand only when that subcommand is asked for.
"""
