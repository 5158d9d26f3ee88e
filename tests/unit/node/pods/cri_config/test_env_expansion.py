"""$(NAME) as Kubernetes replaces it."""

import pytest

from interpose.node.pods.cri_config.env import expand, expand_strictly

VALUES = {"A": "a", "B": "$(A)", "EMPTY": "", "a b": "blank", "X)": "never"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain", "plain"),
        ("$(A)", "a"),
        ("$(A)$(A)", "aa"),
        ("<$(A)>", "<a>"),
        ("$(B)", "$(A)"),
        ("$(EMPTY)", ""),
        ("$(a b)", "blank"),
        ("$(NONE)", "$(NONE)"),
        ("$()", "$()"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("$$$$(A)", "$$(A)"),
        ("$$", "$"),
        ("$", "$"),
        ("a$", "a$"),
        ("$A", "$A"),
        ("$ (A)", "$ (A)"),
        ("$(A", "$(A"),
        ("$(A$$", "$(A$"),
        ("$((A))", "$((A))"),
        ("$(A))", "a)"),
        ("$(NONE$(A))", "$(NONE$(A))"),
        ("$(A)-$(A)$$", "a-a$"),
    ],
)
def test_texts(text: str, expected: str) -> None:
    """Every form."""
    assert expand(text, VALUES) == expected


def test_strictly_a_name_must_be_known() -> None:
    """The error says which."""
    assert expand_strictly("x/$(A)/$$(NONE)", VALUES) == "x/a/$(NONE)"
    with pytest.raises(ValueError, match=r"'\$\(NONE\)': there is no variable 'NONE'"):
        expand_strictly("$(NONE)", VALUES)
