"""What passed in the demo, from the recording of its relay: a list of calls for the terminal, and a page to keep.

As `interpose dump show` shows them, to the column; the commands that the demo prints are held against this by a test.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from interpose.dump.decode import Decoder
from interpose.dump.filters import parse_filter
from interpose.dump.outputs import OUTPUTS, FlowTexts, View
from interpose.dump.reading import open_recording
from interpose.dump.viewing import Viewing

RECORDING: Final = "demo.crirec"
PAGE: Final = "demo.html"
# Calls of the kubelet that reached the runtime as something else.
CHANGED: Final = "~h & ~m Create"


def listed_calls(recording: Path, wanted: str, width: int) -> list[str]:
    """A line for each of the calls that a filter chooses, below the names of the columns."""
    return "".join(_output("list", recording, wanted, width)).splitlines()


def write_page(recording: Path, page: Path) -> None:
    """All calls as an HTML page."""
    with page.open("w", encoding="utf-8") as file:
        file.writelines(_output("html", recording, "", 0))


def _output(form: str, recording: Path, wanted: str, width: int) -> Sequence[str]:
    decoder = Decoder()
    viewing = Viewing(parse_filter(wanted), FlowTexts(decoder))
    with open_recording([recording]) as source:
        view = View(decoder=decoder, width=width, title=recording.name, facts=source.header.facts, filter_text=wanted)
        return list(OUTPUTS[form](viewing.flows(source.frames()), view))
