"""The names of status codes."""

import pytest

from interpose.dump.model.grpc_codes import NAMES, code_name
from interpose.net.grpc.status import Code


@pytest.mark.parametrize("code", list(Code))
def test_every_code_that_rpc_knows_has_its_name(code: Code) -> None:
    """The table and the enumeration of the rpc layer agree."""
    assert code_name(code.value) == code.name


def test_no_name_is_made_up() -> None:
    """The table has no code that the rpc layer does not have."""
    assert len(NAMES) == len(Code)


@pytest.mark.parametrize("code", [17, 99, 255, -1])
def test_a_number_without_a_name_is_shown_as_a_number(code: int) -> None:
    """Also a negative one, which must not count from the end of the table."""
    assert code_name(code) == f"CODE_{code}"
