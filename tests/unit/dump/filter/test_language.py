"""The grammar of filters."""

import pytest

from interpose.dump.filter.language import (
    MATCH_ALL,
    AllOf,
    AnyOf,
    Filter,
    Not,
    Term,
    all_of,
    any_of,
    make_term,
    parse_filter,
)
from interpose.dump.model.call import Flow, Subject
from interpose.dump.model.frames import Flags, MessageSide
from interpose.errors import ConfigError


def no_texts(_flow: Flow, _sides: tuple[MessageSide, ...]) -> str:
    """For filters that do not look into messages."""
    raise AssertionError("nobody should look into messages")


def a_flow(name: str, pod: str = "", number: int = 1) -> Flow:
    """A call about a pod."""
    return Flow(
        number=number,
        time=0,
        path=f"/runtime.v1.RuntimeService/{name}",
        origin="client",
        pid=0,
        uid=0,
        flags=Flags.NONE,
        metadata=(),
        subject=Subject(namespace="ns", pod=pod),
    )


def matches(text: str, flow: Flow) -> bool:
    """Whether the filter lets it through."""
    return parse_filter(text).matches(flow, no_texts)


# What binds how: a text and the same with all its parentheses.
PRECEDENCE = [
    ("a b", '"a" & "b"'),
    ("a & b", '"a" & "b"'),
    ("a|b", '"a" | "b"'),
    ("a b | c", '("a" & "b") | "c"'),
    ("a | b c", '"a" | ("b" & "c")'),
    ("a | b & c | d", '"a" | ("b" & "c") | "d"'),
    ("(a | b) c", '("a" | "b") & "c"'),
    ("!a b", '!"a" & "b"'),
    ("!(a b)", '!("a" & "b")'),
    ("!!a", '!!"a"'),
    ("! a | b", '!"a" | "b"'),
    ("((a))", '"a"'),
    ("a & (b & (c & d))", '"a" & "b" & "c" & "d"'),
    ("(a|b)|c", '"a" | "b" | "c"'),
]


@pytest.mark.parametrize(("text", "whole"), PRECEDENCE)
def test_operators_bind_as_everybody_expects(text: str, whole: str) -> None:
    """Not before and, and before or; groups of the same kind are one."""
    assert str(parse_filter(text)) == whole
    assert parse_filter(whole) == parse_filter(text)


FORMS = [
    ("~m Create", "~m Create"),
    ("~M Create", "~m Create"),
    ("method=Create", "~m Create"),
    ("METHOD=Create", "~m Create"),
    ("ns=shop namespace=shop", "~ns shop & ~ns shop"),
    ("status!=OK", "!~s OK"),
    ("duration>1s", "~d >1s"),
    ("duration > 1s", "~d >1s"),
    ("duration>= 1s web", '~d >=1s & "web"'),
    ("~d > 100ms", "~d >100ms"),
    ("~d <5ms", "~d <5ms"),
    ("~h", "~h"),
    ("changed", "~h"),
    ("changed|web", '~h | "web"'),
    ("changed=koordlet", "~h koordlet"),
    ("~h koordlet web", '~h koordlet & "web"'),
    ("~h & web", '~h & "web"'),
    ("~h ~m a", "~h & ~m a"),
    ("~h pod=web", "~h & ~p web"),
    ("~h changed", "~h & ~h"),
    ("(~h)", "~h"),
    ("changedby", '"changedby"'),
    ("~m Create|Start", '~m "Create|Start"'),
    ("~m Create | Start", '~m Create | "Start"'),
    ("~m Create| Start", '~m Create | "Start"'),
    ("~m A|~m B", "~m A | ~m B"),
    ("~m A&!~m B", "~m A & !~m B"),
    ("method=A|status=error", "~m A | ~s error"),
    ("~m (Create|Start).*", '~m "(Create|Start).*"'),
    ("(~m a(b)c)", '~m "a(b)c"'),
    ("~m a\\) b", '~m "a\\\\)" & "b"'),
    ("~t 'a b'", '~t "a b"'),
    ('~t "say \\"hi\\" \\d"', '~t "say \\"hi\\" \\\\d"'),
    ("'~m'", '"~m"'),
    ("pod=web;x", '~p "web;x"'),
    ("web-0/app", '"web-0/app"'),
]


@pytest.mark.parametrize(("text", "whole"), FORMS)
def test_questions_have_several_spellings(text: str, whole: str) -> None:
    """And one form in which they are shown."""
    assert str(parse_filter(text)) == whole
    assert parse_filter(whole) == parse_filter(text)


def test_no_text_is_no_filter() -> None:
    """Blanks neither."""
    assert parse_filter("") == parse_filter(" \t\n") == MATCH_ALL
    assert str(MATCH_ALL) == ""
    assert MATCH_ALL.matches(a_flow("Version"), no_texts)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("create", True),
        ("WEB", True),
        ("ns/web", True),
        ("db", False),
        ("~m Create web", True),
        ("~m Create db", False),
        ("~m Start | web", True),
        ("!db", True),
        ("!(create | db)", False),
    ],
)
def test_a_filter_is_what_it_says(text: str, wanted: bool) -> None:
    """Words are looked for in the method and in whom the call is about."""
    assert matches(text, a_flow("CreateContainer", "web-0")) is wanted


ERRORS = [
    ("~x a", "there is no ~x; possible are ~m (method)", 0),
    ("a ~", "there is no ~; possible are", 2),
    ("~m", "~m wants RE: method", 2),
    ("~m & a", "~m wants RE", 3),
    ("~m ''", "~m wants RE", 3),
    ("pod=", "pod= wants RE", 4),
    ("pod=|a", "pod= wants RE", 4),
    ("(a", "the ) of this group is missing", 0),
    ("a (b | c", "the ) of this group is missing", 2),
    ("a)", "there is no ( for this )", 1),
    ("a &", "something to look for is missing here", 3),
    ("| a", "something to look for is missing here", 0),
    ("()", "something to look for is missing here", 1),
    ("!", "something to look for is missing here", 1),
    ("~m [", "not a regular expression", 3),
    ("~m a\\", "not a regular expression", 3),
    ("~m *", "not a regular expression", 3),
    ("~d 5", "not a duration", 3),
    ("~d >", "not a duration", 3),
    ("duration>x", "not a duration", 8),
    ("pod>3", "pod has no order; write pod=RE", 3),
    ("duration=3s", "duration is compared with < or >", 8),
    ("foo=3", "'foo=3' is not a question; possible are method, namespace", 0),
    ("pod = web", "'=' is not a question", 4),
    ("'abc", "this quote is never closed", 0),
    ("''", "this word is empty", 0),
    ("~m (a b)", "a ) is missing in this", 3),
    ("~since -10m", "there is no now here", 7),
    ("!" * 60 + "a", "more than 50 groups", 50),
]


@pytest.mark.parametrize(("text", "reason", "at"), ERRORS)
def test_mistakes_are_shown_at_their_place(text: str, reason: str, at: int) -> None:
    """With a caret below the text."""
    with pytest.raises(ConfigError) as error:
        parse_filter(text)
    said, shown, caret = str(error.value).split("\n")
    assert said.startswith("filter: ")
    assert reason in said
    assert shown == f"  {text}"
    assert caret == " " * (at + 2) + "^"


def test_the_surroundings_of_a_mistake_are_shown_if_a_text_is_long() -> None:
    """And what would move the cursor is not."""
    with pytest.raises(ConfigError) as error:
        parse_filter("\x07" + "a " * 200 + "~y " + "b " * 200)
    _said, shown, caret = str(error.value).split("\n")
    assert shown[len(caret) - 1 :].startswith("~y b")
    assert len(shown) < 130
    with pytest.raises(ConfigError, match="\n  \\?\\)\n"):
        parse_filter("\x07)")


def test_a_filter_has_an_end() -> None:
    """Nobody writes so many characters."""
    with pytest.raises(ConfigError, match="at most 10000 characters"):
        parse_filter("a" * 10_001)


def test_questions_of_flags_name_the_flag() -> None:
    """In errors."""
    assert make_term("m", "Create", "--method") == parse_filter("~m Create")
    with pytest.raises(ConfigError, match=r"^--status: 'x' is not a status"):
        make_term("s", "x", "--status")


def test_filters_are_joined() -> None:
    """Those that let everything through are left out."""
    one, other = parse_filter("~m a"), parse_filter("~m b")
    assert all_of([]) == all_of([MATCH_ALL]) == any_of([]) == MATCH_ALL
    assert all_of([MATCH_ALL, one]) == any_of([one]) == one
    assert all_of([one, other]) == parse_filter("~m a & ~m b")
    assert any_of([one, other]) == parse_filter("~m a | ~m b")


@pytest.mark.parametrize(
    ("text", "late"),
    [("~m a web", False), ("~m a | !(~p b & ~d >1s)", True), ("", False), ("~t a", True), ("~n 1", False)],
)
def test_it_is_known_whether_the_end_decides(text: str, late: bool) -> None:
    """Of a call that is being made."""
    assert parse_filter(text).needs_end() is late


def test_parts_are_values() -> None:
    """Two that ask the same are equal, whoever made them."""
    term = parse_filter("a")
    assert isinstance(term, Term)
    assert parse_filter("!a") == Not(term)
    assert parse_filter("a a") == AllOf((term, term))
    assert parse_filter("a|a") == AnyOf((term, term))
    assert issubclass(Term, Filter)
