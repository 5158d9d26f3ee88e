"""Each file of the corpus is read as its index says, whole or in pieces. See tools/gen_h1_corpus.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from interpose.net.h1.heads import Heads
from interpose.net.h1.messages import RequestReader, ResponseReader
from tests.support.fuzz.h1 import Outcome, decoding, run

ROOT = Path(__file__).resolve().parents[4]
FOLDER = ROOT / "tests/data/h1corpus"
INDEX = json.loads((FOLDER / "index.json").read_text())
REFUSED = sorted(name for name, case in INDEX.items() if case["status"] is not None)
FINE = sorted(set(INDEX) - set(REFUSED))


def read(name: str, size: int, limit: int = 65536) -> Outcome:
    """Feed a file in pieces of that size."""
    case = INDEX[name]
    data = (FOLDER / f"{name}.bin").read_bytes()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    heads = Heads(limit=limit)
    if case["kind"] == "request":
        return run(decoding(RequestReader(heads)), pieces, limit=limit)
    return run(decoding(ResponseReader(heads)), pieces, case["method"], limit)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_broken_is_refused(name: str) -> None:
    """With the status and the text of the index."""
    outcome = read(name, 1 << 20)
    assert outcome.status == INDEX[name]["status"]
    assert INDEX[name]["says"] in outcome.why


@pytest.mark.parametrize("name", [name for name in REFUSED if INDEX[name]["kind"] == "request"])
def test_nothing_is_smuggled(name: str) -> None:
    """No head but the first is ever given out, and no message comes to its end."""
    outcome = read(name, 1 << 20)
    assert len(outcome.messages) <= 1
    assert outcome.whole == 0
    assert b"/smuggled" not in outcome.raw


@pytest.mark.parametrize("name", FINE)
def test_what_is_odd_but_right_is_read(name: str) -> None:
    """So many whole messages, and every byte of them."""
    outcome = read(name, 1 << 20)
    assert outcome.status is None, outcome.why
    assert outcome.raw == (FOLDER / f"{name}.bin").read_bytes()
    endless = name in ("answer_until_close", "answer_http_10")
    assert outcome.whole == (0 if endless else INDEX[name]["messages"])


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("name", sorted(INDEX))
def test_pieces_make_no_difference(name: str, size: int) -> None:
    """The same comes out, and the same is wrong, however the bytes come in."""
    assert read(name, size) == read(name, 1 << 20)


def test_the_files_are_those_the_tool_makes() -> None:
    """Nobody edited them by hand."""
    subprocess.run([sys.executable, str(ROOT / "tools/gen_h1_corpus.py"), "--check"], check=True)
