"""`interpose hooks`: the registration files of hook servers, before a relay reads them and as one has read them."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from interpose.cli.common.admin_client import admin_option, ask
from interpose.cli.hooks_text import check_text, list_text
from interpose.config.relay.settings import HookSettings
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.dispatch.registration_files import Reading, is_registration, read_registration
from interpose.host.file_trust import Trust


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
    """What there is to say about a file, or about a directory and each file in it."""
    trust = Trust()
    shown = os.path.abspath(path)  # noqa: PTH100 - links stay as they were given
    try:
        names = sorted(filter(is_registration, os.listdir(path)))  # noqa: PTH208 - names, not paths
        doubts = trust.doubts(Path(path).stat())
    except NotADirectoryError:
        yield _checked_file(shown, trust)
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
    yield from (_checked_file(os.path.join(shown, name), trust) for name in names)  # noqa: PTH118


def _checked_file(path: str, trust: Trust) -> Mapping[str, Any]:
    reading = read_registration(path, trust, ask_trust=False) or Reading(problems=(f"file {path}: does not exist",))
    if reading.server is None and not reading.problems:
        reading = Reading(problems=(f"file {path}: is empty",))
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
