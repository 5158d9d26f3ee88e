"""Data inside a page: JSON in script elements that no browser runs.

Pure. What calls carry is written by anybody who may create a pod, so it is hostile. Invariant: the text of a block is
ASCII without `<`, `>` and `&`, so nothing in it ends the element or begins another, in whatever encoding the page is
read.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, Final

# JSON can write any character as a number; these have a meaning in HTML.
_HARMLESS: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
# What a browser can count to: all its numbers are doubles.
EXACT: Final = (1 << 53) - 1


def block(kind: str, value: Any) -> str:
    """One element with data; `kind` is what the script looks for."""
    return element(kind, harmless_json(value))


def element(kind: str, text: str) -> str:
    """The same of JSON that is harmless already."""
    return f'<script type="application/json" class="data-{kind}">{text}</script>\n'


def harmless_json(value: Any) -> str:
    """JSON that is also safe as the text of an element."""
    text = json.dumps(portable(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.translate(_HARMLESS)


def portable(value: Any) -> Any:
    """The same with numbers that browsers read as they are.

    Whole numbers beyond `EXACT` become `[null, "digits"]`, which is not a list of ours: trees have no null. The numbers
    that JSON does not have become their names, everything else that it does not have becomes text.
    """
    if isinstance(value, Mapping):
        return {str(key): portable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [portable(one) for one in value]
    if isinstance(value, int) and not -EXACT <= value <= EXACT:
        return [None, str(value)]
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: ".inf", -math.inf: "-.inf"}.get(value, ".nan")
    return value if value is None or isinstance(value, str | int | float) else str(value)
