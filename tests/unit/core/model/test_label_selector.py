"""Label selectors mean what they mean to kubectl."""

import pytest

from interpose.core.model.label_selector import LabelSelector, parse_label_selector

LABELS = {"app": "web", "tier": "front", "example.org/weight": "7", "empty": ""}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "app=web",
        "app==web",
        "app = web , tier=front",
        "app!=db",
        "absent!=db",
        "app in (web,db)",
        "app in(web)",
        "app in ( db , web ),tier notin (back)",
        "absent notin (web)",
        "app",
        "!absent",
        "! absent",
        "example.org/weight>6",
        "example.org/weight < 8",
        "empty=",
        "empty in ()",
        "app,tier,!absent",
    ],
)
def test_labels_that_meet_all_requirements_are_selected(text: str) -> None:
    """Whatever form they have, with or without blanks."""
    assert parse_label_selector(text).matches(LABELS)


@pytest.mark.parametrize(
    "text",
    [
        "app=db",
        "app!=web",
        "app=web,tier=back",
        "absent=web",
        "app in (db)",
        "absent in (web)",
        "app notin (web,db)",
        "absent",
        "!app",
        "example.org/weight>7",
        "example.org/weight<7",
        "absent>1",
        "app<1",
        "app=",
    ],
)
def test_others_are_not(text: str) -> None:
    """One requirement that is not met is enough; what is no number is neither more nor less."""
    assert not parse_label_selector(text).matches(LABELS)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("app=web,", "''"),
        ("app~web", "'app~web' is no key"),
        ("app in web", "'app in web'"),
        ("app in (web", "'app in (web'"),
        ("app=we b", "'app=we b'"),
        ("-app=web", "'-app' is no key"),
        ("/app", "'/app' is no key"),
        (f"{'a' * 64}=web", "is no key"),
        (f"{'a' * 254}/app", "is no key"),
        ("app=-web", "'-web' is no value"),
        (f"app={'a' * 64}", "is no value"),
        ("app>many", "'many' is no whole number"),
        ("app===web", "'app===web'"),
    ],
)
def test_what_is_wrong_is_named(text: str, named: str) -> None:
    """With the part it stands in."""
    with pytest.raises(ValueError) as caught:
        parse_label_selector(text)
    assert named in str(caught.value)


def test_no_requirements_select_everything() -> None:
    """Also what has no labels."""
    assert LabelSelector().matches({})
