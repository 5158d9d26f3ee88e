"""What is not isolated is said."""

from interpose.node.runtime.plain.isolation import not_isolated


def test_without_root_less_is_isolated() -> None:
    """What root cannot do nobody can; each thing is one sentence."""
    assert set(not_isolated(root=True)) < set(not_isolated(root=False))
    assert any("file system" in text for text in not_isolated(root=False))
