"""The page of a recording."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest

from interpose.dump.page import render_page
from interpose.dump.page.render import COMPUTED, ROW, Resources, load_resources
from tests.support.dump.call_documents import document, message, sample_documents

PLAIN = Resources(
    template="<title>{{title}}</title>{{policy}}|{{style}}|{{data}}<script>{{script}}</script>", style="s", script="1"
)


class Blocks(HTMLParser):
    """What a browser finds in script elements, by their class."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[Any]] = {}
        self._kind = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Scripts only."""
        self._kind = (dict(attrs).get("class") or "program") if tag == "script" else ""

    def handle_data(self, data: str) -> None:
        """The text of the element."""
        if self._kind:
            self.found.setdefault(self._kind, []).append(data if self._kind == "program" else json.loads(data))

    def handle_endtag(self, tag: str) -> None:
        """Over."""
        self._kind = ""


def read(pieces: Iterator[str]) -> dict[str, list[Any]]:
    """The data of a page."""
    parser = Blocks()
    parser.feed("".join(pieces))
    return parser.found


def page(documents: list[dict[str, Any]], **options: Any) -> dict[str, list[Any]]:
    """The data of a page of these calls."""
    return read(render_page(documents, header={"host": "n1"}, title="t", resources=PLAIN, **options))


def test_every_call_is_on_the_page_with_all_it_has() -> None:
    """Rows and details together are the documents."""
    documents = sample_documents()
    found = page(documents)

    columns = found["data-columns"][0]
    rows = [dict(zip(columns, row, strict=True)) for block in found["data-rows"] for row in block]
    details = [one for block in found["data-details"] for one in block]
    for told, row, detail in zip(documents, rows, details, strict=True):
        assert {key: row[key] for key in ROW} == {key: told[key] for key in ROW}
        assert set(told) == {*ROW, *detail, "time_ns"}
        assert detail["request_diff"] == told["request_diff"]
        assert [one["side"] for one in detail["messages"]] == [one["side"] for one in told["messages"]]


def test_rows_say_when_and_how_much() -> None:
    """In milliseconds since the first call, however late that was; what was changed on the way counts once."""
    sides = [message("request", {}, size=10), message("forwarded", {}, size=11), message("received", {}, size=5)]
    found = page(
        [
            document(1, "Version", time_ns=10**18 + 1),
            document(2, "Version", time_ns=10**18 + 2_500_001, messages=[*sides, message("reply", {}, size=6)]),
        ]
    )

    rows = found["data-rows"][0]
    assert rows[0][-len(COMPUTED)] == 0
    assert rows[1][-len(COMPUTED) :] == [2.5, 10, 6, 1]
    assert found["data-tail"][0]["start_ms"] == 10**12


def test_large_numbers_keep_their_digits() -> None:
    """A browser has doubles only."""
    found = page([document(1, "Status", messages=[message("reply", {"limit": 9_223_372_036_854_771_712})])])

    assert found["data-details"][0][0]["messages"][0]["body"] == {"limit": [None, "9223372036854771712"]}


def test_calls_above_the_limit_are_counted() -> None:
    """The page says how many are missing."""
    found = page([document(number, "Version") for number in range(5)], limit=3)

    assert sum(map(len, found["data-rows"])) == 3
    assert found["data-tail"][0] | {"start_ms": 0} == {"start_ms": 0, "calls": 3, "unshown": 2, "bodiless": 0}


def test_messages_above_the_limit_are_left_out_but_not_their_calls() -> None:
    """One that is too large does not take the place of those behind it."""
    large = document(2, "ListContainers", messages=[message("reply", {"x": "y" * 5000})])
    found = page([document(1, "Version"), large, document(3, "Version")], bodies=2000)

    assert [one is None for one in found["data-details"][0]] == [False, True, False]
    assert found["data-tail"][0]["bodiless"] == 1
    assert len(found["data-rows"][0]) == 3


@pytest.mark.parametrize(
    ("documents", "blocks"),
    [
        ([document(number, "Version") for number in range(450)], [200, 200, 50]),
        ([document(number, "Version", message="x" * 10) for number in range(2)], [2]),
        ([document(n, "Version", messages=[message("reply", {"x": "y" * (1 << 20)})]) for n in range(3)], [1, 1, 1]),
        ([], []),
    ],
    ids=["many", "few", "large", "none"],
)
def test_pieces_stay_small(documents: list[dict[str, Any]], blocks: list[int]) -> None:
    """A block is full after so many calls or so many bytes."""
    found = page(documents)

    assert [len(block) for block in found.get("data-rows", [])] == blocks
    assert [len(block) for block in found.get("data-details", [])] == blocks


def test_an_empty_recording_has_a_page() -> None:
    """It begins at no time."""
    assert page([])["data-tail"] == [{"start_ms": 0, "calls": 0, "unshown": 0, "bodiless": 0}]


def test_pieces_come_as_calls_come() -> None:
    """A recording is never whole in memory: the first block is out before the last call is in."""
    taken: list[int] = []

    def calls() -> Iterator[dict[str, Any]]:
        for number in range(1000):
            taken.append(number)
            yield document(number, "Version")

    pieces = render_page(calls(), header={}, title="t", resources=PLAIN)
    next(piece for piece in pieces if "data-rows" in piece)

    assert len(taken) == 200


def test_the_title_is_text() -> None:
    """It may be the name of a file that somebody else chose; it asks for nothing of ours either."""
    title = "</title><script>{{script}} \udc80"
    text = "".join(render_page([], header={}, title=title, resources=PLAIN))

    assert text.startswith("<title>&lt;/title&gt;&lt;script&gt;{{script}} &#56448;</title>")
    assert text.encode("ascii")
    assert json.loads(text.partition('data-head">')[2].partition("<")[0])["title"] == title


def test_the_policy_allows_what_is_there_and_nothing_else() -> None:
    """By hash: a script that got in by any trick does not run."""
    text = "".join(render_page(sample_documents(), header={}, title="t"))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)

    assert policy
    assert script
    assert style
    for kind, found in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
        assert f"{kind} &#x27;sha256-{digest}&#x27;;" in policy[1]
    assert policy[1].startswith("default-src &#x27;none&#x27;;")
    assert "unsafe" not in policy[1]


def test_the_filter_and_the_facts_are_on_the_page() -> None:
    """With the damage."""
    facts = {"host": "n1", "damage": ["12 bytes at 4 are damaged"]}
    head = read(render_page([], header=facts, title="t", filter_text="~m Create"))["data-head"][0]

    assert (head["filter"], head["facts"]) == ("~m Create", facts)
    assert load_resources().template.index("{{data}}") < load_resources().template.index("{{script}}")
