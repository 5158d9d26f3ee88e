"""Data that a browser takes for data."""

import json
from types import MappingProxyType
from typing import Any

import pytest

from interpose.dump.page.render import EXACT, block, element, harmless_json, portable


@pytest.mark.parametrize(
    "text", ["</script><script>", "<!--<script>", "]]>", "&lt;", "<img onerror=x>", "\u2028\udc80é"]
)
def test_no_text_is_markup(text: str) -> None:
    """Also as a key, and the same text comes out again."""
    written = harmless_json({text: [text]})

    assert not set("<>&") & set(written)
    assert written.isascii()
    assert json.loads(written) == {text: [text]}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (EXACT, EXACT),
        (-EXACT, -EXACT),
        (EXACT + 1, [None, str(EXACT + 1)]),
        (-(1 << 63), [None, str(-(1 << 63))]),
        (True, True),
        (None, None),
        (0.5, 0.5),
        (float("inf"), ".inf"),
        (float("-inf"), "-.inf"),
        (float("nan"), ".nan"),
        (("a", 1), ["a", 1]),
        (MappingProxyType({1: b"x"}), {"1": "b'x'"}),
    ],
)
def test_values_are_made_such_that_a_browser_reads_them(value: Any, written: Any) -> None:
    """Numbers keep every digit, and nothing is refused."""
    assert portable(value) == written


def test_a_block_is_a_script_that_does_not_run() -> None:
    """Its type is data; JSON that is harmless already is put into one as it is."""
    assert block("rows", ["<"]) == '<script type="application/json" class="data-rows">["\\u003c"]</script>\n'
    assert element("rows", "[]") == '<script type="application/json" class="data-rows">[]</script>\n'
