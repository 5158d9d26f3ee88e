"""Put settings together: flag over INTERPOSE_* environment over file over preset over default, origins kept.

A default or preset may depend on another setting; it is looked for when all the others are known.

The caller hands over the environment and the flags; nothing is read from the process here but the file, and the
working directory where a flag has a path that begins there. All problems of all sources are reported together.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from interpose.config.schema import Instead, Schema, value_of
from interpose.core.model.text import closest
from interpose.errors import ConfigError

if TYPE_CHECKING:
    from interpose.config.documents.yaml import DocumentNode


class SettingText(NamedTuple):
    """The text of a value and its origin, for example `flag --listen`."""

    text: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """Settings, the origin of each value by key, and remarks that are worth a warning."""

    settings: Any
    schema: Schema
    origins: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def load(
    schema: Schema,
    *,
    flags: Mapping[str, SettingText],
    env: Mapping[str, str],
    path: str | None = None,
    presets: Mapping[str, SettingText] | None = None,
    instead: Mapping[str, Instead] | None = None,
    read: "Callable[[str], DocumentNode] | None" = None,
) -> LoadedSettings:
    """Merge all sources. `flags` and `presets` are by key; presets are another program's defaults, and `instead` what
    it has instead of them where another setting says so.

    `read` replaces the reading of the file, for callers that have its document already.

    An empty environment variable counts as not set, since unit files cannot unset one. A path may be relative in a
    flag, as on every command line; files and variables have no place it could begin at.
    """
    table = schema.table
    problems: list[str] = []
    values: dict[str, Any] = {}
    fallbacks: dict[str, Any] = {}  # values of presets and dependent defaults
    origins = {setting.key: "default" for setting in table}

    def take(texts: Mapping[str, SettingText], into: dict[str, Any], *, typed: bool = False) -> None:
        for setting in table:
            if setting.key in texts:
                text, origin = texts[setting.key]
                if typed and setting.kind.is_relative(text):
                    text = _from_here(text)
                try:
                    into[setting.key] = setting.kind.parse(text, origin)
                    origins[setting.key] = origin
                except ConfigError as error:
                    problems.extend(error.problems)

    presets = presets or {}
    take(presets, fallbacks)
    if chosen := path or env.get(schema.config_env):
        try:
            _take_file(chosen, read, schema, values, origins, problems)
        except ConfigError as error:
            problems += error.problems
    take({s.key: SettingText(env[s.env], f"environment {s.env}") for s in table if env.get(s.env)}, values)
    take(flags, values, typed=True)
    own = [(setting.key, rule) for setting in table for rule in setting.instead if setting.key not in presets]
    rules = [(key, rule) for key, rule in (*own, *(instead or {}).items()) if key not in values]
    take(_fitting(rules, schema, {**fallbacks, **values}), fallbacks)

    settings = _build(schema.settings(), "", {**fallbacks, **values})
    if not problems:  # a wrong value would only cause a second message
        problems += schema.contradictions(settings, origins)
    if problems:
        raise ConfigError(problems)
    return LoadedSettings(
        settings=settings, schema=schema, origins=origins, warnings=tuple(_unknown_variables(env, schema))
    )


def _from_here(path: str) -> str:
    try:
        return str(Path(path).absolute())
    except OSError:
        return path  # the working directory is gone; the parser refuses the relative path


def _fitting(
    rules: Iterable[tuple[str, Instead]], schema: Schema, values: Mapping[str, Any]
) -> Mapping[str, SettingText]:
    """The defaults of those rules whose condition holds."""
    kinds = {setting.key: setting.kind for setting in schema.table}
    known: Any = schema.settings()
    return {
        key: SettingText(rule.text, rule.origin)
        for key, rule in rules
        if kinds[rule.when].show(values.get(rule.when, value_of(known, rule.when))) == rule.equals
    }


def _take_file(
    path: str,
    read: "Callable[[str], DocumentNode] | None",
    schema: Schema,
    values: dict[str, Any],
    origins: dict[str, str],
    problems: list[str],
) -> None:
    # Only a relay with a settings file pays for the checker and the parsers behind it.
    from interpose.config.check import check_document
    from interpose.config.documents.yaml import read_document

    checked = check_document((read or read_document)(path), path, schema)
    values.update(checked.values)
    origins.update(checked.origins)
    problems += checked.problems


def _build(default: Any, section: str, values: Mapping[str, Any]) -> Any:
    """Make a settings object from values by key; what was not given keeps its default."""
    changes: dict[str, Any] = {}
    for item in fields(default):
        key = f"{section}.{item.name}" if section else item.name
        if is_dataclass(part := getattr(default, item.name)):
            changes[item.name] = _build(part, key, values)
        elif key in values:
            changes[item.name] = values[key]
    return replace(default, **changes)


def _unknown_variables(env: Mapping[str, str], schema: Schema) -> list[str]:
    known = {setting.env for setting in schema.table} | {schema.config_env}
    # They all begin alike, which would make any of them look like any other.
    ends = {name.removeprefix(schema.prefix): name for name in known}

    def meant(name: str) -> str:
        close = closest(name.removeprefix(schema.prefix), ends)
        return f", did you mean {ends[close]}?" if close else ""

    return [
        f"environment {name}: is not a known setting and has no effect{meant(name)}"
        for name in sorted(env)
        if name.startswith(schema.prefix) and name not in known and not name.startswith(schema.foreign)
    ]
