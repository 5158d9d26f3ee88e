"""Which programs have settings, and where each one's table is. A new program is one row.

Tables are loaded on demand: a check of one file does not pay for the others.
"""

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from interpose.config.schema import Schema


class ProgramEntry(NamedTuple):
    """What its settings files say they are, and the place of its Schema."""

    kind: str
    module: str
    attribute: str

    def schema(self) -> Schema:
        found: Schema = getattr(importlib.import_module(self.module), self.attribute)
        return found


PROGRAMS: Final[Mapping[str, ProgramEntry]] = MappingProxyType(
    {
        "relay": ProgramEntry("RelayConfig", "interpose.config.relay.table", "RELAY"),
        "hookserver": ProgramEntry("HookServerConfig", "interpose.config.hookserver.table", "HOOKSERVER"),
        "agent": ProgramEntry("AgentConfig", "interpose.config.agent.table", "AGENT"),
        "webhook": ProgramEntry("WebhookConfig", "interpose.config.webhook.table", "WEBHOOK"),
        "runtime": ProgramEntry("RuntimeConfig", "interpose.config.runtime.table", "RUNTIME"),
    }
)


def program_of(kind: str) -> str | None:
    """The program whose settings files are of this kind."""
    return next((name for name, program in PROGRAMS.items() if program.kind == kind), None)
