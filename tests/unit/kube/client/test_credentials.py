"""What requests show the API server, while files change."""

import json
import logging
import os
from pathlib import Path

import pytest

from interpose.errors import ConfigError
from interpose.kube.client.access import Access, ClientIdentity, ExecPlugin
from interpose.kube.client.credentials import CredentialSource, RequestCredentials
from interpose.net.http.address import parse_server
from interpose.net.http.tls import Pem
from tests.support.net.certificates import Authority

NONE = Pem()
V1 = "client.authentication.k8s.io/v1"


def credentials(user: ClientIdentity, server: str = "http://a", authorities: Pem = NONE) -> CredentialSource:
    """Of a user there."""
    return CredentialSource(Access(server=parse_server(server), source="file f", user=user, authorities=authorities))


async def header(user: ClientIdentity) -> str:
    """The Authorization header of a user."""
    return (await credentials(user).current()).authorization


async def test_headers(tmp_path: Path) -> None:
    """What counts first: token file, token, name with password; nothing is nothing."""
    file = tmp_path / "token"
    file.write_text(" from-file\n")
    assert await header(ClientIdentity(token="t", token_file=str(file))) == "Bearer from-file"
    assert await header(ClientIdentity(token="t")) == "Bearer t"
    assert await header(ClientIdentity(name="me", password="é")) == "Basic bWU6w6k="
    assert await header(ClientIdentity()) == ""


async def test_header_of_a_program(tmp_path: Path) -> None:
    """Its token counts last; only certificates of it need no header."""
    printed = {"kind": "ExecCredential", "apiVersion": V1, "status": {"token": "p"}}
    plugin = ExecPlugin(api_version=V1, command="/bin/echo", args=(json.dumps(printed),))
    assert await header(ClientIdentity(plugin=plugin)) == "Bearer p"
    assert await header(ClientIdentity(plugin=plugin, token="t")) == "Bearer t"


async def test_certificate_of_a_program() -> None:
    """A program may give one; another one means another context."""
    pair = Authority().issue(client=True)
    status = {"clientCertificateData": pair.certificate, "clientKeyData": pair.key}
    printed = json.dumps({"kind": "ExecCredential", "apiVersion": V1, "status": status})
    plugin = ExecPlugin(api_version=V1, command="/bin/echo", args=(printed,))
    holder = credentials(ClientIdentity(plugin=plugin), "https://a")
    grant = await holder.current()
    assert grant.authorization == ""
    assert grant.context is not None
    assert await holder.renew(grant) is None


async def test_no_tls_without_https() -> None:
    """Then nobody reads certificates."""
    assert (await credentials(ClientIdentity(certificate=Pem(file="/nowhere"))).current()).context is None


@pytest.mark.parametrize("token", ["hid\nden", "hid den", "hidé", "hid\x00den"])
async def test_tokens_that_are_none(token: str) -> None:
    """They would break the header; they are not shown."""
    with pytest.raises(ConfigError, match="the token of file f has characters that no token has") as caught:
        await header(ClientIdentity(token=token))
    assert "hid" not in str(caught.value)


def test_grants_are_not_shown() -> None:
    """Their text can be logged."""
    assert "hidden" not in repr(RequestCredentials(authorization="Bearer hidden"))


async def test_token_file_is_read_when_it_changed(tmp_path: Path) -> None:
    """Not otherwise: what looks the same is not opened."""
    file = tmp_path / "token"
    file.write_text("one")
    holder = credentials(ClientIdentity(token_file=str(file)))
    assert (await holder.current()).authorization == "Bearer one"
    look = file.stat()
    file.write_text("two")
    os.utime(file, ns=(look.st_atime_ns, look.st_mtime_ns))
    assert (await holder.current()).authorization == "Bearer one"
    file.write_text("three")
    assert (await holder.current()).authorization == "Bearer three"


async def test_token_file_is_read_after_a_refusal(tmp_path: Path) -> None:
    """Even if it looks the same; the same token again is no use."""
    file = tmp_path / "token"
    file.write_text("one")
    look = file.stat()
    holder = credentials(ClientIdentity(token_file=str(file)))
    grant = await holder.current()
    assert await holder.renew(grant) is None
    file.write_text("two")
    os.utime(file, ns=(look.st_atime_ns, look.st_mtime_ns))
    newer = await holder.renew(grant)
    assert newer is not None
    assert newer.authorization == "Bearer two"
    assert await holder.renew(newer) is None


@pytest.mark.parametrize("content", [None, "", "two words", "x" * 100_000])
async def test_token_file_that_became_unusable(
    tmp_path: Path, content: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The last token stays, with one warning; the next good one is taken."""
    file = tmp_path / "token"
    file.write_text("one")
    holder = credentials(ClientIdentity(token_file=str(file)))
    await holder.current()
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    with caplog.at_level(logging.WARNING):
        assert (await holder.current()).authorization == "Bearer one"
        assert (await holder.current()).authorization == "Bearer one"
    assert [record.getMessage() for record in caplog.records] == ["Failed to read token, keeping the last one"]
    file.write_text("again")
    assert (await holder.current()).authorization == "Bearer again"


async def test_token_file_that_never_was(tmp_path: Path) -> None:
    """Without a token before, it is an error that names the file."""
    file = tmp_path / "token"
    holder = credentials(ClientIdentity(token_file=str(file)))
    with pytest.raises(ConfigError, match=f"file {file}: cannot be read"):
        await holder.current()
    file.write_text(" \n")
    with pytest.raises(ConfigError, match=f"file {file}: is empty, a token was expected"):
        await holder.current()


async def test_token_file_that_is_a_pipe(tmp_path: Path) -> None:
    """Nobody waits for whoever writes into it."""
    os.mkfifo(tmp_path / "token")
    with pytest.raises(ConfigError, match=f"file {tmp_path}/token: cannot be read: it is a named pipe"):
        await header(ClientIdentity(token_file=str(tmp_path / "token")))


async def test_certificates_are_read_when_they_changed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Another file is another context; one that cannot be used leaves the last one."""
    ca = tmp_path / "ca.crt"
    holder = credentials(ClientIdentity(), "https://a", Pem(file=str(ca)))
    with pytest.raises(ConfigError, match=f"certificate authorities {ca}"):
        await holder.current()
    ca.write_text(Authority().pem)
    first = await holder.current()
    assert (await holder.current()).context is first.context
    ca.write_text("half")
    assert (await holder.current()).context is first.context
    assert "Invalid certificates, keeping the last ones" in caplog.text
    ca.write_text(Authority().pem + Authority().pem)
    second = await holder.current()
    assert second.context is not first.context
    assert await holder.renew(first) == second


async def test_others_have_renewed_already(tmp_path: Path) -> None:
    """Who comes with an old refusal gets what the program gave meanwhile."""
    script = tmp_path / "plugin"
    begin = f"#!/bin/sh\necho run >>{tmp_path}/runs\nn=$(/usr/bin/wc -l <{tmp_path}/runs)\n"
    printed = json.dumps({"kind": "ExecCredential", "apiVersion": V1, "status": {"token": "tN"}})
    script.write_text(f"{begin}echo '{printed}' | /bin/sed s/tN/t$n/\n")
    script.chmod(0o755)
    holder = credentials(ClientIdentity(plugin=ExecPlugin(api_version=V1, command=str(script))))
    old = await holder.current()
    assert old.authorization == "Bearer t1"
    assert await holder.renew(old) == RequestCredentials(authorization="Bearer t2")
    assert await holder.renew(old) == RequestCredentials(authorization="Bearer t2")
