"""`interpose hooks`: the registration files of hook servers, before a relay reads them and as one has read them.

All text of files, plugins and errors passes through `printable` before it reaches the terminal. A key that is missing
in an answer is shown as a dash.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from interpose.cli.common.admin_client import admin_option, ask
from interpose.cli.common.terminal import format_value
from interpose.config.relay.settings import HookSettings
from interpose.core.model.humanize import format_rough_age
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.dispatch.registration_files import RegistrationFile, is_registration, read_registration
from interpose.host.file_trust import Trust

# Titles and keys of the table, in order. The error comes last, it is the long one.
_COLUMNS = (
    ("NAME", "name"),
    ("STATE", "state"),
    ("POLICY", "failure_policy"),
    ("PRIORITY", "priority"),
    ("HOOKS", "hooks"),
    ("CALLS", "calls"),
    ("FAILURES", "failures"),
    ("MEAN", "mean_ms"),
    ("LAST ERROR", "last_error"),
)


def list_text(answer: object) -> str:
    """The hook servers of a relay, what is wrong with its files, and what it knows of pods."""
    if not isinstance(answer, Mapping):
        return format_value(answer)
    return "\n".join([*_plugins(answer), *_problems(answer), *_store(answer)])


def _plugins(answer: Mapping[str, Any]) -> Iterator[str]:
    directory = format_value(answer.get("directory"))
    plugins = _groups(answer.get("plugins"))
    if not plugins:
        yield f"No hook servers are registered; files are expected in {directory}, with names that end in .json"
        return
    yield f"Hook servers registered in {directory}:"
    rows = [[title for title, _ in _COLUMNS]]
    rows += [[_cell(plugin, key) for _, key in _COLUMNS] for plugin in plugins]
    widths = [max(len(row[index]) for row in rows) for index in range(len(_COLUMNS))]
    for row in rows:
        yield "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _cell(plugin: Mapping[str, Any], key: str) -> str:
    value = plugin.get(key)
    text = format_value(value)
    if key == "state" and isinstance(plugin.get("state_seconds"), int | float):
        return f"{text} {format_rough_age(plugin['state_seconds'])}"
    if key == "hooks" and isinstance(value, list) and all(isinstance(name, str) for name in value):
        # All of them, as a koordlet has it, would be wider than any terminal.
        return "all" if set(value) == set(HookPoint) else format_value(",".join(value))
    if key == "mean_ms" and value is not None:
        return f"{text}ms"
    if key == "last_error" and value and isinstance(plugin.get("last_error_seconds"), int | float):
        return f"{text} ({format_rough_age(plugin['last_error_seconds'])} ago)"
    return text


def _problems(answer: Mapping[str, Any]) -> Iterator[str]:
    problems, warnings = _groups(answer.get("problems")), _groups(answer.get("warnings"))
    if problems or warnings:
        yield "Problems:"
    for problem in problems:
        state = "the last good version is in force" if problem.get("in_force") else "nothing of it is in force"
        yield f"  {format_value(problem.get('file'))}: {state}"
        yield from (f"    - {format_value(message)}" for message in problem.get("messages") or ())
    for warning in warnings:
        yield f"  {format_value(warning.get('file'))}: is in force as far as it is understood"
        yield from (f"    - {format_value(message)}" for message in warning.get("messages") or ())


def _store(answer: Mapping[str, Any]) -> Iterator[str]:
    store = answer.get("store")
    if isinstance(store, Mapping):
        pods, containers, pending = (format_value(store.get(key)) for key in ("pods", "containers", "pending"))
        yield f"Known to the relay: {pods} pods, {containers} containers, {pending} pending"


def _groups(value: object) -> Sequence[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def check_text(findings: Sequence[Mapping[str, Any]]) -> str:
    """The findings of a check: a result per file, then what it registers and what is wrong."""
    return "\n".join(line for finding in findings for line in _finding_lines(finding))


def _finding_lines(finding: Mapping[str, Any]) -> Iterator[str]:
    problems, registers = finding["problems"], finding["registers"]
    result = f"cannot be used, {len(problems)} problem{'s'[: len(problems) != 1]}" if problems else "ok"
    yield f"{format_value(finding['file'])}: {result if problems or registers else finding['note']}"
    if registers is not None:
        yield from (f"  {title:<9} {text}" for title, text in _describe_registration(registers))
    yield from (f"  problem: {format_value(problem)}" for problem in problems)
    yield from (f"  warning: {format_value(warning)}" for warning in finding["warnings"])


def _describe_registration(registers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "endpoint", format_value(registers["endpoint"])
    yield "hooks", format_value(", ".join(registers["hooks"]))
    yield "policy", format_value(registers["failure_policy"])
    yield "priority", format_value(registers["priority"])
    if registers["timeout_seconds"] is not None:
        yield "timeout", f"{format_value(registers['timeout_seconds'])}s"
    if registers["selector"] is not None:
        yield "selector", format_value(registers["selector"])


@click.group("hooks")
def hooks() -> None:
    """Check registration files, list hook servers."""


@hooks.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@admin_option
def list_hooks(as_json: bool, admin: str) -> None:
    """Show the hook servers a running relay asks, and what is wrong with the files."""
    answer = ask(admin, "GET", "/v1/hooks")
    click.echo(json.dumps(answer, indent=2) if as_json else list_text(answer))


@hooks.command("check")
@click.argument("paths", metavar="[FILE]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def check(paths: Sequence[str], as_json: bool) -> int:
    """Check registration files, or those in directories; without arguments those a relay reads by default.

    Ends with 1 if one cannot be used. Owner and mode only give warnings here: the file may be meant for elsewhere.
    """
    findings = [finding for path in paths or [HookSettings().dir] for finding in _check(path, named=bool(paths))]
    click.echo(json.dumps(findings, indent=2) if as_json else check_text(findings))
    return 1 if any(finding["problems"] for finding in findings) else 0


def _check(path: str, *, named: bool) -> Iterator[Mapping[str, Any]]:
    """Findings about a file, or about a directory and each file in it."""
    trust = Trust()
    shown = os.path.abspath(path)  # noqa: PTH100 - links stay as they were given
    try:
        names = sorted(filter(is_registration, os.listdir(path)))  # noqa: PTH208 - names, not paths
        doubts = trust.doubts(Path(path).stat())
    except NotADirectoryError:
        yield _check_file(shown, trust)
        return
    except FileNotFoundError:
        nothing = "does not exist"
        yield _finding(shown, problems=[f"{shown}: {nothing}"] if named else [], note="" if named else nothing)
        return
    except OSError as error:
        yield _finding(shown, problems=[f"directory {shown}: cannot be read: {error.strerror}"])
        return
    if doubts or not names:
        note = "is not trusted" if names else "holds no registration files (names end in .json)"
        yield _finding(
            shown, note=note, warnings=[f"directory {shown}: {doubts}, a relay refuses it"] if doubts else []
        )
    yield from (_check_file(os.path.join(shown, name), trust) for name in names)  # noqa: PTH118


def _check_file(path: str, trust: Trust) -> Mapping[str, Any]:
    reading = read_registration(path, trust, check_trust=False) or RegistrationFile(
        problems=(f"file {path}: does not exist",)
    )
    if reading.server is None and not reading.problems:
        reading = RegistrationFile(problems=(f"file {path}: is empty",))
    warnings = [*reading.warnings, *(f"{doubt}, a relay refuses it" for doubt in reading.doubts)]
    if not is_registration(path.rpartition("/")[2]):
        warnings.append(f"file {path}: a relay reads only names that end in .json and do not begin with a dot")
    if reading.server is None:
        return _finding(path, problems=reading.problems, warnings=warnings)
    server = reading.server
    registers = {
        "name": server.name,
        "endpoint": server.endpoint,
        "failure_policy": server.failure_policy.value,
        "hooks": [point.value for point in HookPoint if point in server.hooks],
        "priority": server.priority,
        "timeout_seconds": server.timeout,
        "selector": server.selector.document() or None,
    }
    return _finding(path, warnings=warnings, registers=registers)


def _finding(
    path: str,
    *,
    problems: Sequence[str] = (),
    warnings: Sequence[str] = (),
    note: str = "",
    registers: Mapping[str, Any] | None = None,
) -> Mapping[str, Any]:
    return {
        "file": path,
        "registers": registers,
        "problems": list(problems),
        "warnings": list(warnings),
        "note": note,
    }
