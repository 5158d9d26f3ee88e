"""The names of policies."""

from interpose.core.policy.names import NAMES, NONE, POLICIES


def test_every_name_and_alias_leads_to_one_policy() -> None:
    """No name is used twice, and a name leads to itself."""
    assert len(NAMES) == sum(1 + len(one.aliases) for one in POLICIES)
    assert all(NAMES[one.name] == one.name for one in POLICIES)
    assert (NAMES["stp"], NAMES["null"]) == ("static-pools", NONE)


def test_every_policy_says_what_it_is_for() -> None:
    """In one line."""
    assert all(one.description and "\n" not in one.description for one in POLICIES)
