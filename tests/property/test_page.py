"""What always holds of a page: nothing that a call carries is markup, and nothing of it is lost."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interpose.dump.page.render import Resources, render_page
from tests.support.dump.call_documents import document, message

BEGIN, END = "<!--data-->", "<!--over-->"
PLAIN = Resources(template=f"{BEGIN}{{{{data}}}}{END}", style="", script="")
OPENING = '<script type="application/json" class="data-'

# Pieces that mean something to a browser, among any other text.
markup = st.sampled_from(
    ["</script>", "<script>", "<!--", "-->", "&lt;", "]]>", "\u2028", "\udcff", "{{data}}", "\\u003c"]
)
texts = st.lists(st.one_of(markup, st.text(max_size=5)), max_size=4).map("".join)
scalars = st.one_of(
    texts, st.booleans(), st.integers(-(1 << 64), 1 << 64), st.floats(allow_nan=False, allow_infinity=False)
)
trees = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Calls that say anything anywhere."""
    names = ("subject", "namespace", "pod", "container", "image", "message", "origin", "path")
    return document(
        draw(st.integers(0, 1 << 64)),
        draw(texts),
        time_ns=draw(st.integers(0, 1 << 62)),
        messages=[message("reply", draw(trees), note=draw(texts))],
        metadata=[[draw(texts), draw(texts)]],
        request_diff=[draw(texts)],
    ) | {name: draw(texts) for name in names}


def back(value: Any) -> Any:
    """What a browser makes of it."""
    if isinstance(value, list):
        if len(value) == 2 and value[0] is None:
            return int(value[1])
        return [back(one) for one in value]
    return {key: back(one) for key, one in value.items()} if isinstance(value, dict) else value


@given(st.lists(documents(), max_size=3), texts, texts)
def test_data_is_never_markup_and_never_lost(told: list[dict[str, Any]], fact: str, wanted: str) -> None:
    """Each `<` of the data is of an element of ours, and the documents come out as they went in."""
    text = "".join(render_page(told, header={"host": fact}, title="", filter_text=wanted, resources=PLAIN))
    data = text.removeprefix(BEGIN).removesuffix(END)
    elements = data.split("\n")[:-1]

    found: dict[str, list[Any]] = {}
    for element in elements:
        assert element.startswith(OPENING)
        kind, _, rest = element.removeprefix(OPENING).partition('">')
        assert rest.endswith("</script>")
        body = rest.removesuffix("</script>")
        assert not set("<>&") & set(body)
        found.setdefault(kind, []).append(back(json.loads(body)))
    assert found["head"][0]["facts"] == {"host": fact}
    assert found["head"][0]["filter"] == wanted
    rows = [dict(zip(found["columns"][0], row, strict=True)) for block in found.get("rows", []) for row in block]
    details = [one for block in found.get("details", []) for one in block]
    assert [{**one, **row, **detail} for one, row, detail in zip(told, rows, details, strict=True)] == [
        {**one, **{key: row[key] for key in row.keys() - one.keys()}} for one, row in zip(told, rows, strict=True)
    ]
