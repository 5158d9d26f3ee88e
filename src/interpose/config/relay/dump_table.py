"""The settings about dumps and recordings: rows of the relay's table, and which of them exclude each other."""

from collections.abc import Mapping
from typing import Final

from interpose.config.dump_redaction import parse_redaction
from interpose.config.dump_rules import parse_rules
from interpose.config.relay.settings import RelaySettings
from interpose.config.schema import Setting
from interpose.config.values import SettingKind, directory, duration, integer, size, switch

# Rules have commas of their own, and no method or expression has this.
SEPARATOR: Final = ";"


def _rules() -> SettingKind:
    """SPECs as `dump_rules.parse_rules` reads them, kept as text."""

    def parse(text: str, where: str) -> tuple[str, ...]:
        specs = tuple(filter(None, map(str.strip, text.split(SEPARATOR))))
        parse_rules(specs, where)
        return specs

    return SettingKind(
        name='[target:]method,... with ";" between several such texts; quote them in a file',
        accepts=frozenset({"str", "list"}),
        parse=parse,
        show=SEPARATOR.join,
        separator=SEPARATOR,
        repeatable=True,
    )


def _redaction() -> SettingKind:
    """What `dump_redaction.parse_redaction` reads, kept as text."""

    def parse(text: str, where: str) -> str:
        parse_redaction(text, where)
        return text.strip()

    return SettingKind(name="words and patterns with commas between", accepts=frozenset({"str", "list"}), parse=parse)


DUMP_SETTINGS: Final = (
    Setting(
        key="dump.rules",
        flag="--dump",
        kind=_rules(),
        help="Calls to write down, and how much of them: full:.*,off:Version,count:.*Stats. Can be given several "
        "times. Targets are off, short, full and count; on alone takes what is usually wanted. Empty: no dump.",
        why="Whoever runs a relay does not want to read every call.",
    ),
    Setting(
        key="dump.file",
        flag="--dump-file",
        kind=directory(optional=True),
        help="File for the dump, with times. It is emptied at start. Empty: none.",
        why="The log has it.",
    ),
    Setting(
        key="dump.log",
        flag="--dump-log",
        kind=switch(),
        help="Write the dump to the log.",
        why="What was asked for should be seen without looking for it.",
    ),
    Setting(
        key="dump.count_period",
        flag="--count-period",
        kind=duration(0.0, 604800.0),
        help="Time after which calls that are only counted are reported, by the first one that comes then.",
        why="A rate per minute is what people compare.",
    ),
    Setting(
        key="dump.redact",
        flag="--dump-redact",
        kind=_redaction(),
        help="What is hidden in dumps and recordings: default, strict or none, and items such as env:GLOB, "
        "annotation:GLOB, label:GLOB, command, output; a dash before an item takes it away.",
        why="Credentials, values of the environment and output of commands do not belong into files.",
    ),
    Setting(
        key="dump.record",
        flag="--record",
        kind=directory(optional=True),
        help="File to record all calls in, for `interpose dump`; by convention it ends in .crirec. Empty: none.",
        why="A recording is made when there is something to find out.",
    ),
    Setting(
        key="dump.record_size",
        flag="--record-size",
        kind=size(64 << 10, 1 << 40),
        help="Size of a file of the recording, after which the next one begins.",
        why="An hour of a busy node, and still quick to copy.",
    ),
    Setting(
        key="dump.record_files",
        flag="--record-files",
        kind=integer(1, 1000),
        help="Files of the recording that are kept, the newest ones.",
        why="With the size of one this is what a recording may cost: 256 MiB.",
    ),
    Setting(
        key="dump.queue",
        flag="--dump-queue",
        kind=size(64 << 10, 1 << 30),
        help="Bytes that may wait for a slow reader of dumps; what comes on top is dropped and counted.",
        why="A list of all images and containers of a full node many times over.",
    ),
)


def dump_contradictions(settings: RelaySettings, origins: Mapping[str, str]) -> list[str]:
    """What no single value shows."""
    dump = settings.dump
    problems = []
    if dump.file and not dump.rules:
        problems.append(
            f"{origins['dump.file']}: dump.file would stay empty, dump.rules says which calls belong there: --dump on"
        )
    if dump.rules and not dump.log and not dump.file and not origins["dump.rules"].startswith("default"):
        problems.append(
            f"{origins['dump.log']}: dump.rules ({origins['dump.rules']}) are there, but neither dump.log nor dump.file"
        )
    if dump.record and dump.record == dump.file:
        problems.append(f"{origins['dump.record']}: dump.record is the same file as dump.file: {dump.record!r}")
    return problems
