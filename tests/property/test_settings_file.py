"""A settings file made of what is in force means the same again, for every program, key and value."""

from hypothesis import given
from hypothesis import strategies as st

from interpose.config.document import parse_document
from interpose.config.effective import rows_of, settings_file
from interpose.config.load import Given, Loaded, load
from interpose.config.programs import PROGRAMS
from interpose.errors import ConfigError

SCHEMAS = {name: program.schema() for name, program in PROGRAMS.items()}
WORDS = (
    *("", "none", "auto", "info", "static", "keep", "/a b", "/a: b", "/a #b", "/x.sock", "unix:///x", ":80"),
    *("127.0.0.1:80", "[::]:80", "5s", "1m", "500ms", "64KiB", "0600", "0o640", "true", "no", "null", "~", "1,2"),
    *("cpu=1", "cpu=0-3", "full:.*;off:Version", "annotation,event", "2020-01-01", "1:30", "- a", "&a", "!x", "{}"),
)
# Some that are values of each kind, and what YAML reads as something else.
TEXTS = st.one_of(
    st.sampled_from(WORDS),
    st.integers(0, 1 << 20).map(str),
    st.integers(0, 99).map(lambda number: f"{number:03}"),
    st.text(st.sampled_from("abz019-_.:,/#'\"\\ {}[]&*!%@`²٣é"), min_size=1, max_size=6),
)


@st.composite
def said(draw: st.DrawFn) -> Loaded:
    """A program that was told by flags all of these that it takes, one by one."""
    schema = SCHEMAS[draw(st.sampled_from(sorted(SCHEMAS)))]
    settings = draw(st.lists(st.sampled_from(schema.table), min_size=1, max_size=8))
    loaded = load(schema, flags={}, env={})
    flags: dict[str, Given] = {}
    for setting in settings:
        more = {**flags, setting.key: Given(draw(TEXTS), "flag")}
        try:
            loaded = load(schema, flags=more, env={})
        except ConfigError:
            continue
        flags = more
    return loaded


@given(said())
def test_a_file_of_what_is_in_force_gives_the_same_settings(before: Loaded) -> None:
    """With every key in it, also those that are at their defaults."""
    node = parse_document(settings_file(before.schema, rows_of(before)), "file x.yaml")
    after = load(before.schema, flags={}, env={}, path="x.yaml", read=lambda _path: node)
    assert after.settings == before.settings
