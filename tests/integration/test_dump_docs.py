"""The pages about dumps say what is so: their examples are run, their tables are read by the program."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from interpose.config.dump_redaction import parse_redaction
from interpose.config.dump_rules import DEFAULTS, parse_rules
from interpose.dump.decode.decode import Decoder
from interpose.dump.filter.language import parse_filter
from interpose.dump.filter.select import CallSelector
from interpose.dump.filter.terms import TERMS
from interpose.dump.live.keys import GROUPS
from interpose.dump.output.formats import OUTPUTS, FlowTexts, OutputContext
from interpose.dump.recording.reader import Recording, open_recording
from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.recordings import sample_recording
from tests.support.lab.relay import program

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "dump.md").read_text()
FORMAT = (DOCS / "recording-format.md").read_text()
EXAMPLE = re.compile(r"^```\n\$ interpose (dump [^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
READER = re.compile(r"^```python\n# reader\.py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WIDTH = 100  # of the terminal in the examples


def section(page: str, title: str) -> str:
    """The text below a heading, up to the next one."""
    return re.split(r"^#+ ", page.partition(f" {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def codes(text: str, column: int = 0) -> list[str]:
    """What stands as code in this column of tables."""
    rows = [line.replace("\\|", "/").split("|")[1:-1] for line in text.splitlines() if line.startswith("| ")]
    return [code for row in rows for code in re.findall(r"`([^`]+)`", row[column])]


def listed_calls(recording: Path, wanted: str) -> list[str]:
    """A line for each of the calls that a filter chooses, below the names of the columns."""
    decoder = Decoder()
    viewing = CallSelector(parse_filter(wanted), FlowTexts(decoder))
    with open_recording([recording]) as source:
        view = OutputContext(
            decoder=decoder, width=WIDTH, title=recording.name, facts=source.header.facts, filter_text=wanted
        )
        return "".join(OUTPUTS["list"](viewing.flows(source.frames()), view)).splitlines()


def shown(words: list[str], recording: Path) -> list[str]:
    """What a command prints. A list as on a terminal, which a test has not."""
    if words[1] == "show" and not set(words) & {"-o", "--number"}:
        return listed_calls(recording, " ".join(words[3:]))
    environment = {**os.environ, "TZ": "UTC", "PYTHONIOENCODING": "utf-8", "COLUMNS": str(WIDTH)}
    command: list[str | Path] = [program(), *words]
    done = subprocess.run(
        command,
        cwd=recording.parent,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=WAIT_LIMIT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def fits(printed: list[str], lines: list[str]) -> bool:
    """Whether this is what the page says, where `...` stands for any lines."""
    pattern = "".join("(?:.*\n)*?" if line == "..." else re.escape(line.rstrip()) + "\n" for line in printed)
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in lines)) is not None


@pytest.mark.parametrize(("command", "printed"), EXAMPLE.findall(PAGE))
def test_an_example_prints_what_the_page_says(tmp_path: Path, command: str, printed: str) -> None:
    """With the recording that the page tells how to get."""
    recording = tmp_path / "calls.crirec"
    sample_recording(recording)

    lines = shown(shlex.split(command), recording)

    assert fits(printed.splitlines(), lines), "\n".join(lines)


def test_there_are_examples() -> None:
    """They are found, and one that says something else would be."""
    assert len(EXAMPLE.findall(PAGE)) >= 6
    assert fits(["a", "...", "c"], ["a", "b", "c"])
    assert not fits(["a", "c"], ["a", "b", "c"])


def test_rules_of_the_page_are_rules() -> None:
    """Each example can be used, and the defaults are those of the program."""
    text = section(PAGE, "SPEC")
    examples = codes(text.partition("| example |")[2])
    assert len(examples) >= 6
    assert all(parse_rules([one]).enabled for one in examples)
    assert f"\n{DEFAULTS}\n" in text


def test_filters_of_the_page_are_filters() -> None:
    """With an expression in the place of RE, each form of the table can be read, and all keys are there."""
    stands_for = {"STATUS": "error", "KIND": "originated", "NUMBERS": "1,4-6", "TIME": "09:00:30", "RE": "x"}
    rows = section(PAGE, "Filters")
    forms = codes(rows, 0) + codes(rows, 1)
    for form in forms:
        for word, value in stands_for.items():
            form = re.sub(rf"\b{word}$", value, form)
        parse_filter(form)
    assert {form.split()[0] for form in codes(rows) if form.startswith("~")} == {f"~{one.letter}" for one in TERMS}


def test_items_of_redaction_are_items() -> None:
    """Each can be used; so can the list that the page recommends."""
    items = [one.replace("GLOB", "A*").replace("-ITEM", "-output") for one in codes(section(PAGE, "Redaction"))]
    assert {"default", "strict", "none", "command"} < set(items)
    for item in [*items, "default,command", "default,-env:PATH"]:
        parse_redaction(item)


def test_keys_of_the_live_view_are_keys() -> None:
    """What the page says can be pressed."""
    named = set(codes(section(PAGE, "Live view"))) - {"Tab", "Enter", "PgUp", "PgDn", "space"}
    known = {part for group in GROUPS for key in group.keys for part in key.label.split()}
    assert named <= known


def test_the_reader_reads(tmp_path: Path) -> None:
    """The program on the page about the format prints every call that ended."""
    recording, reader = tmp_path / "calls.crirec", tmp_path / "reader.py"
    sample_recording(recording)
    (text,) = READER.findall(FORMAT)
    reader.write_text(text)

    done = subprocess.run(
        [sys.executable, "-W", "ignore", reader, recording],
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_LIMIT,
    )

    with Recording(recording) as source:
        ended = [flow for flow in source.flows() if flow.end is not None]
        expected = [f"{one.number} {one.path} {one.end.code}" for one in ended if one.end]
    session, *lines = done.stdout.splitlines()
    assert session == "sample"
    assert [line.rsplit(" ", 2)[0] for line in lines] == expected


def test_options_of_the_page_are_options() -> None:
    """Each is in the help of some command; `--password` is of a program in a container."""
    known = set(re.findall(r"--[a-z][a-z-]+", (DOCS / "reference/flags.md").read_text()))
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) - known == {"--password"}
