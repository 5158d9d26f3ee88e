"""Keys and certificates of the webhook."""

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509

from interpose.kube.webhook.issue import Issued, bundle, examine, issue

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
YEAR = timedelta(days=365)
NAMES = ("hook.ns.svc", "10.0.0.1", "::1")


def test_issued_certificate_is_good_for_its_names() -> None:
    """DNS names and addresses are in it, and it ends when it was told to."""
    facts = examine(issue(NAMES, YEAR, NOW))
    assert facts.names == set(NAMES)
    assert facts.not_after == NOW + YEAR
    assert facts.missing([*NAMES, "other"]) == ["other"]


def test_client_trusts_it_by_its_authority_alone() -> None:
    """A TLS client that knows the authority shakes hands; the two are a server certificate and a CA to it."""
    issued = issue(("hook.ns.svc",), YEAR, datetime.now(UTC))
    client = ssl.create_default_context(cadata=issued.authority.decode())
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(into, out, server_hostname="hook.ns.svc")
    other = _server(issued).wrap_bio(out, into, server_side=True)
    for _ in range(4):
        for side in (one, other):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert one.version() == "TLSv1.3"
    seen: Any = one.getpeercert()
    assert seen["subjectAltName"] == (("DNS", "hook.ns.svc"),)


def _server(issued: Issued) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(issued.key + issued.certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def test_long_names_fit() -> None:
    """A DNS name may be longer than a common name."""
    name = "a" * 60 + ".some-namespace.svc.cluster.local"
    assert examine(issue((name,), YEAR, NOW)).names == {name}


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"authority": b"nothing"}, "ca.crt"),
        ({"certificate": b""}, "tls.crt"),
        ({"key": b"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"}, "tls.key"),
    ],
)
def test_unreadable_parts_are_named(broken: dict[str, bytes], said: str) -> None:
    """Each of the three is named by its file."""
    good = issue(("a",), YEAR, NOW)
    parts = {"authority": good.authority, "certificate": good.certificate, "key": good.key} | broken
    with pytest.raises(ValueError, match=said):
        examine(Issued(**parts))


def test_parts_of_two_issues_do_not_go_together() -> None:
    """Neither the key nor the authority of another one."""
    one, other = issue(("a",), YEAR, NOW), issue(("a",), YEAR, NOW)
    with pytest.raises(ValueError, match="not the key of"):
        examine(Issued(authority=one.authority, certificate=one.certificate, key=other.key))
    with pytest.raises(ValueError, match="not signed by"):
        examine(Issued(authority=other.authority, certificate=one.certificate, key=one.key))


def test_keys_are_not_shown() -> None:
    """A log or a traceback that shows the value shows no key."""
    assert "PRIVATE" not in repr(issue(("a",), YEAR, NOW))


def test_bundle_keeps_the_authority_before_until_it_expires() -> None:
    """New one first, old one behind it, each once; one that is over goes."""
    old, new = issue(("a",), timedelta(days=10), NOW), issue(("a",), YEAR, NOW)
    both = bundle(old.authority, new.authority, NOW)
    assert both == new.authority + old.authority
    assert bundle(both, new.authority, NOW) == both
    assert bundle(both, new.authority, NOW + timedelta(days=11)) == new.authority


def test_what_cannot_be_read_stays_in_a_bundle_as_it_is() -> None:
    """It may be good to an API server, and what stands beside it is good in any case; one that is over goes."""
    old, over, new = (issue(("a",), timedelta(days=days), NOW) for days in (100, 10, 365))
    odd = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    kept = b"# a remark\n" + odd + over.authority + old.authority.replace(b"\n", b"\r\n")
    later = NOW + timedelta(days=11)
    both = bundle(kept, new.authority, later)
    assert both.startswith(new.authority + odd)
    assert len(both.split(b"-----END CERTIFICATE-----")) == 4
    assert b"".join(old.authority.split()) in b"".join(both.split())
    assert bundle(both, new.authority, later) == both
    assert bundle(old.authority, both, later) == both


def test_names_are_compared_in_one_form() -> None:
    """As others may have spelled them."""
    assert examine(issue(("Hook.ns.svc", "0::1"), YEAR, NOW)).missing(("hook.ns.svc", "::1")) == []


def test_placeholder_in_a_bundle_is_dropped() -> None:
    """Manifests have something there before the first issue."""
    new = issue(("a",), YEAR, NOW)
    assert bundle(b"to be filled in", new.authority, NOW) == new.authority
    assert len(x509.load_pem_x509_certificates(bundle(b"", new.authority, NOW))) == 1
