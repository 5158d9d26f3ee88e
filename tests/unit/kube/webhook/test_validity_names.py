"""Names of certificates have one form."""

import pytest

from interpose.kube.webhook.validity import certificate_name


@pytest.mark.parametrize(
    ("given", "form"),
    [
        ("hook.ns.svc", "hook.ns.svc"),
        ("Hook.NS.svc.", "hook.ns.svc"),
        ("*.ns.svc", "*.ns.svc"),
        ("a" * 63 + ".x", "a" * 63 + ".x"),
        ("1a.b2", "1a.b2"),
        ("10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("FE80::1", "fe80::1"),
    ],
)
def test_one_form(given: str, form: str) -> None:
    """However it is spelled, and twice is the same."""
    assert certificate_name(given) == form
    assert certificate_name(form) == form


@pytest.mark.parametrize(
    "given",
    [
        *("", ".", "...", "a..b", ".a", "*", "*.", "*a", "*.*.x", "a.*", "-a", "a-", "a_b", "not a name", "\u00fc"),
        *(":::", "1.2.3.4.5", "1.2.3", "a" * 64 + ".x", ("a" * 50 + ".") * 5 + "abcd"),
    ],
)
def test_what_nobody_could_ask_for_is_refused(given: str) -> None:
    """The message has it."""
    with pytest.raises(ValueError, match="is not a DNS name and no address"):
        certificate_name(given)


def test_zones_are_of_one_machine() -> None:
    """A certificate cannot say them."""
    with pytest.raises(ValueError, match="has a zone"):
        certificate_name("fe80::1%eth0")
