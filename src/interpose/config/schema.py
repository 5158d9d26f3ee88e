"""How settings are described: one row per value, one schema per program.

Flags, environment, file keys, --print-config and the reference pages all follow the rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from interpose.config.values import SettingKind

ENV_PREFIX = "INTERPOSE_"

# What no single value shows: settings and the origin of each in, problems out.
Contradictions = Callable[[Any, Mapping[str, str]], list[str]]


class Instead(NamedTuple):
    """Another default of a setting while the setting `when` has the value `equals`. Values as people write them."""

    when: str
    equals: str
    text: str
    origin: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row: a value and all its names.

    `key` is the path inside the settings object and inside a settings file. `help` says what it does, its unit and
    what empty means; `why` gives the reason for the default. The name in the environment follows from the flag.
    `instead` are defaults that depend on another setting; the settings object has the one that does not.
    """

    key: str
    flag: str
    kind: SettingKind
    help: str
    why: str
    prefix: str = ENV_PREFIX
    instead: tuple[Instead, ...] = ()
    aliases: tuple[str, ...] = ()  # further flags, as other programs call it

    @property
    def env(self) -> str:
        """The environment variable: --max-streams is INTERPOSE_MAX_STREAMS."""
        return self.prefix + self.flag.removeprefix("--").replace("-", "_").upper()

    @property
    def section(self) -> str:
        """The group it belongs to; empty at the top."""
        return self.key.rpartition(".")[0]

    @property
    def is_switch(self) -> bool:
        """Whether the flag stands alone, without a value."""
        return self.kind.accepts == {"bool"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """All settings of one program."""

    program: str  # its command, for people
    file_kind: str  # what a settings file says it is
    settings: type[Any]
    table: tuple[Setting, ...]
    titles: Mapping[str, str]  # of the sections, in their order
    contradictions: Contradictions = lambda _settings, _origins: []
    prefix: str = ENV_PREFIX
    foreign: tuple[str, ...] = ()  # prefixes of variables that are other programs' business

    @property
    def config_env(self) -> str:
        """The variable that names the settings file."""
        return self.prefix + "CONFIG"

    def default(self, setting: Setting) -> str:
        """The default as a person would write it; empty when empty is the default."""
        return setting.kind.show(value_of(self.settings(), setting.key))

    def defaults(self, setting: Setting, quote: str = "") -> str:
        """The default for people, with those that depend on other settings; `quote` is put around each value."""
        default = self.default(setting)
        others = (f", with {rule.when} {rule.equals} {quote}{rule.text}{quote}" for rule in setting.instead)
        return (f"{quote}{default}{quote}" if default else "empty") + "".join(others)


def value_of(settings: Any, key: str) -> Any:
    """The value at a key such as `limits.message`."""
    value: Any = settings
    for name in key.split("."):
        value = getattr(value, name)
    return value
