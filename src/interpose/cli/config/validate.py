"""`interpose config validate`: is this what its program takes? Exit code 78 if not, as of the program itself."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import click

from interpose.cli.config.kinds import kind_option, read
from interpose.cli.config.reading import ReadContext, Reading
from interpose.cli.config.sources import STDIN, DocumentSource, read_sources
from interpose.core.model.text import printable
from interpose.errors import ConfigError

EXIT_CONFIG: Final = 78
_LINE: Final = re.compile(r"(?:file|directory) .*? line ([0-9]+): ")


class Finding(NamedTuple):
    """The result of checking one file."""

    file: str
    reading: Reading | None
    problems: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of a file that can be used; empty for others."""
        return () if self.reading is None else self.reading.warnings


@click.command("validate")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True)
@kind_option
@click.option(
    "--node",
    metavar="NAME",
    help="Read ConfigMaps as this node does. Without it, the parts of all nodes are checked.",
)
@click.option("--with-env", is_flag=True, help="Let the environment count, as when a program starts here.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def validate(paths: Sequence[str], kind: str | None, node: str | None, with_env: bool, output: str) -> int:
    """Check files as the programs that read them do: settings files of every program, policy documents, ConfigMap
    manifests, directories for `kubectl create configmap --from-file`, registration files of hook servers, NodeSLO and
    NodeState documents, option files of cri-resmgr, pools of static-pools. What a file is shows in its content.

    FILE may be a directory, which stands for the files in it, and `-` for standard input. Files alone are checked:
    flags do not count, nor does the environment unless --with-env says so, and no other file is looked at.

    Ends with 0 if all can be used and with 78 if one cannot, or cannot be read.
    """
    context = ReadContext(env=os.environ if with_env else {}, node=node)
    findings = [finding for path in paths for finding in _findings(path, kind, context)]
    click.echo(json.dumps(list(map(_plain, findings)), indent=2) if output == "json" else _text(findings))
    return EXIT_CONFIG if any(finding.problems for finding in findings) else 0


def _findings(path: str, kind: str | None, context: ReadContext) -> Iterator[Finding]:
    empty = True
    for source in read_sources(path):
        empty = False
        yield _finding(source, path, kind, context)
    if empty:
        yield Finding(path, None, (f"directory {path}: holds no file that could be checked",))


def _finding(source: DocumentSource | ConfigError, path: str, kind: str | None, context: ReadContext) -> Finding:
    try:
        if isinstance(source, ConfigError):
            raise source
        return Finding(source.name, read(source, kind, context))
    except ConfigError as error:
        name = source.name if isinstance(source, DocumentSource) else path
        return Finding(STDIN if name == "<stdin>" else name, None, tuple(error.problems))


def _text(findings: Sequence[Finding]) -> str:
    lines: list[str] = []
    for finding in findings:
        reading = finding.reading
        if reading is None:
            lines.append(f"bad {finding.file}")
        elif not reading.kind:
            lines.append(f"skipped {finding.file}: {reading.note}")
        else:
            note = f" ({reading.note})" if reading.note else ""
            lines.append(f"ok {finding.file}: {reading.kind}{note}")
        lines += [f"  error: {problem}" for problem in finding.problems]
        lines += [f"  warning: {warning}" for warning in finding.warnings]
    return "\n".join(map(printable, lines))


def _plain(finding: Finding) -> Mapping[str, Any]:
    reading = finding.reading
    return {
        "file": finding.file,
        "kind": str(reading.kind) if reading is not None and reading.kind else None,
        "ok": not finding.problems,
        "problems": [_with_line(text) for text in finding.problems],
        "warnings": [_with_line(text) for text in finding.warnings],
    }


def _with_line(text: str) -> Mapping[str, Any]:
    match = _LINE.match(text)
    return {"line": int(match[1]) if match else None, "text": text}
