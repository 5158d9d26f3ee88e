"""`interpose dump info`: what is in a recording, where it comes from, and whether it is whole."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from interpose.cli.common.terminal import format_value
from interpose.cli.dump.filter_options import alone_option
from interpose.cli.dump.output import output_sink, quiet_end
from interpose.cli.main import EXIT_FAILED
from interpose.cli.render.text import amount, flat, or_dash, table
from interpose.core.model.humanize import format_size
from interpose.dump.model.frame_reader import Damage
from interpose.dump.model.grpc_codes import code_name
from interpose.dump.recording.reader import Recording, RecordingSummary, open_recording

UNFINISHED: Final = "unfinished"
_SECOND: Final = 1_000_000_000
_SHOWN_DAMAGE: Final = 20
_UNCUT: Final = 1 << 16  # the name of a file is for copying
# Said elsewhere in the text.
_NOT_SHOWN: Final = frozenset({"format", "version", "part"})


@click.command("info")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True)
@click.option("-o", "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@alone_option
def info(paths: Sequence[str], form: str, alone: bool) -> int:
    """Say what is in a recording: where it comes from, its files and calls, what is missing or damaged.

    FILE is the newest file of a recording; older ones (calls.000001.crirec, ...) are found beside it. Damage is
    reported and does not fail the command; it ends with 1 if there is nothing in it that can be read.

    \b
    Examples:
      interpose dump info calls.crirec
      interpose dump info -o json calls.crirec | jq .methods
    """
    code: list[int] = []
    with open_recording(paths, alone=alone) as recording, quiet_end(code), output_sink("") as sink:
        summary = recording.summary()
        document = _document(recording, summary)
        code.append(0 if summary.frames else EXIT_FAILED)
        sink.write((json.dumps(document, indent=2) if form == "json" else "\n".join(_text(document))) + "\n")
    return code[-1]


def _document(recording: Recording, summary: RecordingSummary) -> dict[str, Any]:
    return {
        "header": dict(recording.header.facts),
        "files": [
            {
                "path": str(file.path),
                "size": file.size,
                "created": file.header.facts.get("created"),
                "session": file.session,
                "index": indexed,
            }
            for file, indexed in zip(recording.files, summary.indexed, strict=True)
        ],
        "first": _time(summary.first),
        "last": _time(summary.last),
        "seconds": None if summary.first is None or summary.last is None else (summary.last - summary.first) / _SECOND,
        "frames": summary.frames,
        "calls": summary.calls,
        "failed": sum(count for codes in summary.methods.values() for code, count in codes.items() if code),
        "changed": summary.changed,
        "unfinished": summary.unfinished,
        "beginning_missing": summary.beheaded,
        "message_bytes": summary.message_bytes,
        "methods": {
            method: {UNFINISHED if code is None else code_name(code): count for code, count in codes.items()}
            for method, codes in sorted(summary.methods.items())
        },
        "dropped": {"frames": summary.dropped, "bytes": summary.dropped_bytes},
        "damaged_places": summary.damaged,
        "damage": [
            {"file": damage.file, "offset": damage.offset, "size": damage.size, "why": damage.why}
            for damage in summary.damage
        ],
    }


def _time(moment: int | None) -> str | None:
    if moment is None:
        return None
    # Every number that a frame can hold is a year between 1677 and 2846.
    return datetime.fromtimestamp(moment / _SECOND, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# -- for people


def _text(document: Mapping[str, Any]) -> list[str]:
    if all(file["size"] == 0 for file in document["files"]):
        return [or_dash(str(Damage(**damage))) for damage in document["damage"]]
    sections = (_damage(document), _facts(document), _files(document), _calls(document))
    return [line for index, section in enumerate(filter(None, sections)) for line in ([""] * (index > 0) + section)]


def _damage(document: Mapping[str, Any]) -> list[str]:
    """First of all: whoever counts on a recording has to know."""
    lines = []
    if places := document["damaged_places"]:
        lines.append(f"DAMAGED in {amount(places, 'place')}; everything else can be read:")
        shown = [Damage(**damage) for damage in document["damage"][:_SHOWN_DAMAGE]]
        lines += [f"  {or_dash(damage if damage.file else damage.why)}" for damage in shown]
        if places > _SHOWN_DAMAGE:
            lines.append(f"  and {places - _SHOWN_DAMAGE} more: -o json lists them")
    if frames := document["dropped"]["frames"]:
        missing = format_size(document["dropped"]["bytes"])
        lines.append(
            f"DROPPED {amount(frames, 'frame')} ({missing}): traffic was faster than the recording, or disk full"
        )
    return lines


def _facts(document: Mapping[str, Any]) -> list[str]:
    facts = {key: value for key, value in document["header"].items() if key not in _NOT_SHOWN}
    width = max(map(len, facts), default=0)
    return [f"{or_dash(key):{width}}  {format_value(value)}" for key, value in facts.items()]


def _files(document: Mapping[str, Any]) -> list[str]:
    rows = [["FILE", "SIZE", "CREATED", "INDEX"]]
    rows += [
        [or_dash(file["path"]), format_size(file["size"]), or_dash(file["created"]), "yes" if file["index"] else "no"]
        for file in document["files"]
    ]
    return flat(table(rows, width=_UNCUT))


def _calls(document: Mapping[str, Any]) -> list[str]:
    if not document["calls"]:
        return ["No calls."]
    parts = [amount(document["calls"], "call")]
    parts += [f"{document[key]} {key}" for key in ("failed", "changed", UNFINISHED) if document[key]]
    if count := document["beginning_missing"]:
        parts.append(f"{count} without their beginning, which is in a file that is gone")
    seconds = document["seconds"]
    lines = [", ".join(parts), f"{document['first']} to {document['last']} ({seconds:.3f} s)", ""]
    rows = [["METHOD", "CALLS", "STATUS"]]
    for method, codes in document["methods"].items():
        status = ", ".join(f"{name} {count}" for name, count in codes.items())
        rows.append([or_dash(method), str(sum(codes.values())), status])
    return lines + flat(table(rows))
