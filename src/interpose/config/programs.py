"""Which programs have settings, and where each one's table is. A new program is one row.

Tables are loaded when somebody asks for them: who checks one file does not pay for the others.
"""

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from interpose.config.schema import Schema


class Program(NamedTuple):
    """What its settings files say they are, and the place of its Schema."""

    kind: str
    module: str
    attribute: str

    def schema(self) -> Schema:
        """The table."""
        found: Schema = getattr(importlib.import_module(self.module), self.attribute)
        return found


PROGRAMS: Final[Mapping[str, Program]] = MappingProxyType(
    {
        "relay": Program("RelayConfig", "interpose.config.relay.table", "RELAY"),
        "hookserver": Program("HookServerConfig", "interpose.config.hookserver.table", "HOOKSERVER"),
        "agent": Program("AgentConfig", "interpose.config.agent.table", "AGENT"),
        "webhook": Program("WebhookConfig", "interpose.config.webhook.table", "WEBHOOK"),
        "runtime": Program("RuntimeConfig", "interpose.config.runtime.table", "RUNTIME"),
    }
)


def program_of(kind: str) -> str | None:
    """The program whose settings files are of this kind."""
    return next((name for name, program in PROGRAMS.items() if program.kind == kind), None)
