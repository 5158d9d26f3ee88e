"""The table of programs says what their schemas say."""

import pytest

from interpose.config.programs import PROGRAMS, program_of


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_row_leads_to_the_table_of_its_program(name: str) -> None:
    """The kind of its files is the same in both places."""
    program = PROGRAMS[name]
    schema = program.schema()
    assert (schema.file_kind, schema.program) == (program.kind, f"interpose {name}")


def test_a_kind_leads_to_its_program() -> None:
    """And one that is nobody's to none."""
    assert program_of("HookServerConfig") == "hookserver"
    assert program_of("ConfigMap") is None
