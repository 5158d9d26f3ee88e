"""What cri-resmgr prints about itself."""

import pytest

from interpose.cli.compat.cri_resmgr_flags import FLAGS
from interpose.cli.compat.cri_resmgr_help import MODULES, help_text, loggers_text, modules_text, policies_text
from interpose.config.documents.policy_options import OPTIONS
from interpose.core.policy.names import POLICIES


def test_help_lists_all_flags_with_their_defaults() -> None:
    """Each has a line of its own, and something to say."""
    text = help_text()
    for name, flag in FLAGS.items():
        assert f"\n  --{name}" + ("\n" if flag.switch else " string\n") in text
        assert repr(flag.default) in text or not flag.default
    assert "        \n" not in text


@pytest.mark.parametrize(
    ("dashes", "head", "row"),
    [(1, "The available policies are:", "  static-plus: "), (2, "Available policies:", "  * static-plus: ")],
)
def test_policies_are_listed_in_two_forms(dashes: int, head: str, row: str) -> None:
    """That of the first releases and that of later ones."""
    lines = policies_text(dashes).splitlines()
    assert lines[0] == head
    assert len(lines) == len(POLICIES) + 1
    assert [line for line in lines if line.startswith(row)]
    assert lines[1].endswith("(also called null)")


def test_sources_of_the_log_are_listed() -> None:
    """With what of ours logs under that name."""
    assert "  policy: resmgr" in loggers_text().splitlines()


def test_every_key_of_a_document_is_explained() -> None:
    """And no other."""
    for policy, kind in OPTIONS.items():
        assert set(MODULES[f"policy.{policy}"]) == set(kind.group.keys)
        assert f"policy.{policy}:\n" in modules_text([])


def test_modules_can_be_asked_for_by_name() -> None:
    """One that is not known is named."""
    assert modules_text(["policy.none"]) == "policy.none:\n  (no keys)"
    with pytest.raises(ValueError, match="'rdt' is not a module of the configuration: policy, "):
        modules_text(["policy", "rdt"])
