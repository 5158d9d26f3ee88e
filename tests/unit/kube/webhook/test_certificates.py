"""The newest pair of files that is good is served; nothing that happens to the files takes it away."""

import datetime as dt
import shutil
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from interpose.errors import ConfigError
from interpose.kube.webhook.certificates import Certificates, TlsFiles, load
from interpose.testing.eventually import eventually
from tests.support.net.certificates import CERTIFICATE, KEY, Authority, Pair, publish_secret, write_pair

AUTHORITY = Authority()
FIRST, SECOND = AUTHORITY.issue(), AUTHORITY.issue()
Follow = Callable[[], Certificates]


def files(folder: Path, client_ca: str = "") -> TlsFiles:
    """As a Secret names them."""
    return TlsFiles(certificate=str(folder / CERTIFICATE), key=str(folder / KEY), client_ca=client_ca)


def served(certificates: Certificates) -> bytes:
    """The certificate that a client sees now."""
    return certificate_of(certificates.context)


def certificate_of(context: ssl.SSLContext) -> bytes:
    """Greet each other in memory."""
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname = False
    asking.verify_mode = ssl.CERT_NONE
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(back, there)
    server = context.wrap_bio(there, back, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    found = client.getpeercert(binary_form=True)
    assert found is not None
    return found


def der(pair: Pair) -> bytes:
    """The certificate of a pair, as it is sent."""
    return ssl.PEM_cert_to_DER_cert(pair.certificate)


@pytest.fixture
async def follow(tmp_path: Path) -> AsyncIterator[Follow]:
    """Follows the files in the test's folder, with short waits."""
    made: list[Certificates] = []

    def begin() -> Certificates:
        made.append(Certificates(files(tmp_path), settle=0.01))
        made[-1].start()
        return made[-1]

    yield begin
    for one in made:
        await one.close()


async def test_a_new_pair_is_served(tmp_path: Path, follow: Follow) -> None:
    """One file after the other, as scripts do it; what is half done is no trouble."""
    write_pair(tmp_path, FIRST)
    certificates = follow()
    assert served(certificates) == der(FIRST)
    write_pair(tmp_path, SECOND)
    await eventually(lambda: served(certificates) == der(SECOND), "the second pair")
    assert certificates.reloads["loaded"] == 1
    assert certificates.stale == ""


async def test_a_secret_is_followed(tmp_path: Path, follow: Follow) -> None:
    """Kubelets swap a link two levels up."""
    publish_secret(tmp_path, {CERTIFICATE: FIRST.certificate, KEY: FIRST.key})
    certificates = follow()
    publish_secret(tmp_path, {CERTIFICATE: SECOND.certificate, KEY: SECOND.key})
    await eventually(lambda: served(certificates) == der(SECOND), "the second pair")


async def test_another_kind_of_key_leaves_nothing_of_the_old_one(tmp_path: Path, follow: Follow) -> None:
    """A context that was given both would choose by what clients like best."""
    write_pair(tmp_path, AUTHORITY.issue(rsa=True))
    certificates = follow()
    write_pair(tmp_path, SECOND)
    await eventually(lambda: served(certificates) == der(SECOND), "the second pair")


async def test_a_broken_pair_keeps_the_one_before(
    tmp_path: Path, follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    """It is counted, logged once and shown; the next good one ends that."""
    write_pair(tmp_path, FIRST)
    certificates = follow()
    write_pair(tmp_path, Pair(certificate=SECOND.certificate, key=FIRST.key))
    await eventually(lambda: certificates.reloads["failed"] == 1, "a failed reload")
    assert served(certificates) == der(FIRST)
    assert certificates.problem() is None
    assert "newer files cannot be used" in certificates.remark()
    assert "the key is not the certificate's" in certificates.stale
    write_pair(tmp_path, SECOND)
    await eventually(lambda: served(certificates) == der(SECOND), "the second pair")
    assert certificates.remark() == str(certificates.validity)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "Failed to load certificate, keeping the previous one"
    ]


async def test_files_that_are_gone_keep_the_pair(tmp_path: Path, follow: Follow) -> None:
    """And the same ones back again are no change."""
    folder = tmp_path / "keep"
    write_pair(tmp_path, FIRST)
    certificates = follow()
    folder.mkdir()
    for name in (CERTIFICATE, KEY):
        shutil.move(tmp_path / name, folder / name)
    await eventually(lambda: certificates.reloads["failed"] == 1, "a failed reload")
    assert "cannot be read: No such file" in certificates.stale
    for name in (CERTIFICATE, KEY):
        shutil.move(folder / name, tmp_path / name)
    await eventually(lambda: certificates.stale == "", "good files")
    assert certificates.reloads["loaded"] == 0


async def test_an_expired_certificate_is_a_problem_and_is_served_all_the_same(tmp_path: Path) -> None:
    """It may be that our clock is wrong; clients decide."""
    past = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    write_pair(tmp_path, AUTHORITY.issue(not_after=past))
    problem = Certificates(files(tmp_path)).problem()
    assert problem is not None
    assert problem.startswith("the certificate expired at ")


@pytest.mark.parametrize(
    ("begins", "ends", "reason"),
    [(-3, -1, "the certificate expired at"), (1, 3, "the certificate is not valid before")],
)
async def test_one_that_clients_would_refuse_does_not_replace_a_good_one(
    tmp_path: Path, follow: Follow, begins: int, ends: int, reason: str
) -> None:
    """It is reported as one that cannot be used."""
    write_pair(tmp_path, FIRST)
    certificates = follow()
    now = dt.datetime.now(dt.UTC)
    first, last = now + dt.timedelta(days=begins), now + dt.timedelta(days=ends)
    write_pair(tmp_path, AUTHORITY.issue(not_before=first, not_after=last))
    await eventually(lambda: certificates.reloads["failed"] == 1, "a failed reload")
    assert served(certificates) == der(FIRST)
    assert certificates.problem() is None
    assert reason in certificates.stale


async def test_one_for_later_is_taken_into_use_then(tmp_path: Path) -> None:
    """Without a change of the files: they are looked at from time to time."""
    write_pair(tmp_path, FIRST)
    now = dt.datetime.now(dt.UTC)
    clock = now.timestamp()
    certificates = Certificates(files(tmp_path), wall=lambda: clock)
    later = AUTHORITY.issue(not_before=now + dt.timedelta(days=1), not_after=now + dt.timedelta(days=9))
    write_pair(tmp_path, later)
    assert "not valid before" in await certificates.look()
    clock += 86400 + 10
    assert await certificates.look() == ""
    assert served(certificates) == der(later)


async def test_an_expired_one_makes_way_for_any_other(tmp_path: Path) -> None:
    """There is nothing to lose, and the clock may be wrong."""
    past = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    one, other = (AUTHORITY.issue(not_after=past) for _ in range(2))
    write_pair(tmp_path, one)
    certificates = Certificates(files(tmp_path))
    write_pair(tmp_path, other)
    assert await certificates.look() == ""
    assert served(certificates) == der(other)


async def test_half_of_a_pair_is_no_trouble_yet(tmp_path: Path) -> None:
    """The metric does not say so before there was time for the other half."""
    write_pair(tmp_path, FIRST)
    certificates = Certificates(files(tmp_path))
    (tmp_path / CERTIFICATE).write_text(SECOND.certificate)
    assert "the key is not the certificate's" in await certificates.look()
    assert (certificates.stale, certificates.reloads["failed"]) == ("", 0)


def test_old_protocols_are_not_spoken(tmp_path: Path) -> None:
    """TLS 1.2 at least."""
    write_pair(tmp_path, FIRST)
    assert load(files(tmp_path)).context.minimum_version is ssl.TLSVersion.TLSv1_2


ENCRYPTED = """\
-----BEGIN EC PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-256-CBC,2D0B1A1F0C5D6E7F8091A2B3C4D5E6F7

AAAAAAAAAAAAAAAAAAAAAA==
-----END EC PRIVATE KEY-----
"""


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        (CERTIFICATE, "", "there is no certificate in it"),
        (CERTIFICATE, SECOND.certificate, "the key is not the certificate's"),
        (KEY, "nothing", "NO_START_LINE|PEM|UNSUPPORTED"),
        (KEY, ENCRYPTED, "the key is encrypted"),
        ("ca.crt", "nothing", "NO_CERTIFICATE_OR_CRL_FOUND|no PEM"),
    ],
)
def test_at_the_start_bad_files_are_refused(tmp_path: Path, name: str, text: str, reason: str) -> None:
    """The message names the file and what is wrong with it."""
    write_pair(tmp_path, FIRST)
    (tmp_path / "ca.crt").write_text(AUTHORITY.pem)
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=rf"^file {tmp_path}.*({reason})"):
        load(files(tmp_path, client_ca=str(tmp_path / "ca.crt")))


def test_missing_files_are_named(tmp_path: Path) -> None:
    """The first that is missing."""
    with pytest.raises(ConfigError, match=rf"file {tmp_path}/tls.crt: cannot be read: No such file or directory"):
        load(files(tmp_path))
