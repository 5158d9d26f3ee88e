"""A settings file made of what is in force means the same again, for every program, key and value."""

from hypothesis import given
from hypothesis import strategies as st

from interpose.config.check import check_document
from interpose.config.documents.yaml import parse_document
from interpose.config.effective import SettingRow, settings_file
from interpose.config.programs import PROGRAMS
from interpose.errors import ConfigError

SCHEMAS = [program.schema() for program in PROGRAMS.values()]
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


@given(TEXTS)
def test_what_is_written_is_read_again(text: str) -> None:
    """By every setting of every program that takes this text at all."""
    for schema in SCHEMAS:
        for setting in schema.table:
            try:
                value = setting.kind.parse(text, "flag")
            except ConfigError:
                continue
            file = settings_file(schema, [SettingRow(setting.key, setting.kind.show(value), "flag")])
            checked = check_document(parse_document(file, "x.yaml"), "x.yaml", schema)
            assert (checked.problems, checked.values) == ([], {setting.key: value}), file
