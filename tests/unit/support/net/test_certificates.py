"""Certificates of tests are accepted by those who trust their authority, and files are laid down as they should."""

import ssl
from pathlib import Path

from tests.support.net.certificates import CERTIFICATE, KEY, Authority, publish_secret, write_pair


def test_a_pair_fits_together(tmp_path: Path) -> None:
    """Of both kinds of keys."""
    authority = Authority()
    for rsa in (False, True):
        write_pair(tmp_path, authority.issue(rsa=rsa))
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / CERTIFICATE, tmp_path / KEY)
    assert sorted(path.name for path in tmp_path.iterdir()) == [CERTIFICATE, KEY]


def test_a_secret_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """Names are links through one link; what was there before is gone."""
    for text in ("one", "two"):
        publish_secret(tmp_path / "secret", {"a": text, "b": text})
        assert [(tmp_path / "secret" / name).read_text() for name in "ab"] == [text, text]
    assert (tmp_path / "secret/a").readlink() == Path("..data/a")
    assert sorted(path.name for path in (tmp_path / "secret").iterdir()) == ["..1", "..data", "a", "b"]
