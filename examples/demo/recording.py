"""What passed in the demo, from the recording of its relay: a page to keep."""

from pathlib import Path
from typing import Final

from interpose.dump.decode.decode import Decoder
from interpose.dump.filter.language import parse_filter
from interpose.dump.filter.select import CallSelector
from interpose.dump.output.formats import OUTPUTS, FlowTexts, OutputContext
from interpose.dump.recording.reader import open_recording

RECORDING: Final = "demo.crirec"
PAGE: Final = "demo.html"
# Calls of the manager that reached the runtime as something else.
CHANGED: Final = "~h & ~m Create"


def write_page(recording: Path, page: Path) -> None:
    """All calls as an HTML page."""
    decoder = Decoder()
    viewing = CallSelector(parse_filter(""), FlowTexts(decoder))
    with open_recording([recording]) as source, page.open("w", encoding="utf-8") as file:
        view = OutputContext(decoder=decoder, width=0, title=recording.name, facts=source.header.facts, filter_text="")
        file.writelines(OUTPUTS["html"](viewing.flows(source.frames()), view))
