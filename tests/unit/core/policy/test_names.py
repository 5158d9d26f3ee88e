"""The names of policies."""

from interpose.core.policy.names import NAMES, NONE, POLICIES, WITHOUT_HINTS


def test_every_name_and_alias_leads_to_one_policy() -> None:
    """No name is used twice, and a name leads to itself."""
    assert len(NAMES) == sum(1 + len(policy.aliases) for policy in POLICIES)
    assert all(NAMES[policy.name] == policy.name for policy in POLICIES)
    assert (NAMES["stp"], NAMES["null"]) == ("static-pools", NONE)


def test_every_policy_says_what_it_is_for() -> None:
    """The description is a single line."""
    assert all(policy.description and "\n" not in policy.description for policy in POLICIES)


def test_policies_without_hints_are_among_all() -> None:
    """A name that is misspelt would have hints found out for nobody's use."""
    assert {policy.name for policy in POLICIES} >= WITHOUT_HINTS
