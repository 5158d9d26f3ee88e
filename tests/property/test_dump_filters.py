"""Filters: whatever is written, it is either a filter with one form or an error with a place."""

from hypothesis import event, given
from hypothesis import strategies as st

from interpose.dump.filter.language import AllOf, AnyOf, Filter, Not, all_of, any_of, make_term, parse_filter
from interpose.dump.filter.terms import TERMS
from interpose.errors import ConfigError

NOW = 1_763_283_600_000_000_000
WORDS = st.text(min_size=1, max_size=12)
_ARGUMENTS = {
    "s": st.sampled_from(["OK", "error", "open", "not_found", "5", "200"]),
    "d": st.builds(
        "{}{}{}".format,
        st.sampled_from([">", "<", ">=", "<="]),
        st.integers(0, 10**6),
        st.sampled_from(["ms", "s", "us"]),
    ),
    "k": st.sampled_from(["passthrough", "inter", "o"]),
    "n": st.lists(st.integers(0, 999).map(str) | st.integers(0, 99).map("{}-".format), min_size=1).map(",".join),
    "since": st.datetimes().map(lambda moment: moment.isoformat()) | st.times().map(lambda moment: moment.isoformat()),
    "until": st.integers(1, 999).map("-{}m".format),
}


def _read(letter: str, argument: str) -> Filter:
    try:
        return make_term(letter, argument, "--flag", now=NOW)
    except ConfigError:
        return parse_filter("~m readable")


QUESTION = st.sampled_from([one.letter for one in TERMS]).flatmap(
    lambda letter: st.builds(_read, st.just(letter), _ARGUMENTS.get(letter, WORDS))
)
WORD = WORDS.map(lambda word: parse_filter('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'))
FILTERS = st.recursive(
    QUESTION | WORD,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map(all_of),
        st.lists(inner, min_size=1, max_size=4).map(any_of),
        inner.map(Not),
    ),
    max_leaves=12,
)
PIECES = st.lists(
    st.sampled_from([*"()!&|~'\"\\ =<>", "~m", "~d", "~h", "pod=", "changed", "duration", "web", ">1s", "a|b"]) | WORDS
)


@given(FILTERS)
def test_what_is_shown_parses_to_the_same(wanted: Filter) -> None:
    """Quotes, escapes and parentheses are where they are needed."""
    assert parse_filter(str(wanted)) == wanted


@given(PIECES)
def test_any_text_is_a_filter_or_an_error_with_a_place(pieces: list[str]) -> None:
    """Never another exception; and the error points into the text."""
    text = "".join(pieces)
    try:
        form = str(parse_filter(text, now=NOW))
    except ConfigError as error:
        form = str(error).split("\n")[-1]
        event("an error")
    assert form.strip() == "^" or str(parse_filter(form)) == form


@given(st.lists(FILTERS, min_size=2, max_size=4))
def test_joining_keeps_one_form(parts: list[Filter]) -> None:
    """Groups do not hold groups of their kind."""
    for joined, kind in ((all_of(parts), AllOf), (any_of(parts), AnyOf)):
        assert isinstance(joined, kind)
        assert not any(isinstance(part, kind) for part in joined.parts)
