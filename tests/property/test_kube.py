"""What always holds for what comes from outside: bytes of a watch, kubeconfig files, addresses."""

import json
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interpose.config.documents.yaml import parse_document
from interpose.errors import ConfigError
from interpose.kube.client.access import Access
from interpose.kube.client.api import NODES, ApiError
from interpose.kube.client.decode import Lines, read_error, read_event, read_list
from interpose.kube.client.kubeconfig_document import Section, read_access
from interpose.net.http.address import parse_proxy, parse_server, proxy_from

KEYS = (
    *("current-context", "contexts", "clusters", "users", "name", "context", "cluster", "user", "server", "token"),
    *("tokenFile", "exec", "apiVersion", "command", "args", "env", "value", "proxy-url", "extensions", "username"),
    *("certificate-authority-data", "client-key-data", "client-certificate", "insecure-skip-tls-verify", "password"),
)
TEXTS = st.sampled_from(("a", "https://a", "x y", "", "client.authentication.k8s.io/v1", "http://[::1", "LS0t"))
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"?"))), st.data())
def test_lines_do_not_depend_on_cuts(lines: list[bytes], data: st.DataObject) -> None:
    """However bytes are cut, the same lines come out, and nothing is left."""
    wire = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=8)))
    reader = Lines(1000)
    found = [
        line for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True) for line in reader.feed(wire[start:end])
    ]
    assert found == [line for line in lines if line.strip()]
    assert not reader.cut


@given(DOCUMENTS, st.binary(max_size=40))
def test_answers_are_read_or_refused(document: Any, junk: bytes) -> None:
    """Whatever a server says, it is an answer, an error of it, or none: nothing else is raised."""
    for body in (json.dumps(document).encode(), json.dumps({"type": "ADDED", "object": document}).encode(), junk):
        with suppress(ValueError, ApiError):
            read_list(body, NODES)
        with suppress(ValueError, ApiError):
            read_event(body)
        assert read_error(400, {"retry-after": junk.decode("latin-1")}, body).code > 0


def read(document: Any) -> Access | ConfigError:
    """The access of a document, or what is wrong with it."""
    try:
        section = Section(parse_document(json.dumps(document), "file f"), where="file f", folder="/")
        return read_access([section], "x", {})
    except ConfigError as error:
        return error


@given(DOCUMENTS)
def test_kubeconfigs_are_read_or_refused(document: Any) -> None:
    """Whatever is in a file, it is an access or a message that names the file."""
    whole = {"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]}
    for each in (
        document,
        whole | {"clusters": document},
        whole | {"clusters": [{"name": "a", "cluster": document}]},
        whole
        | {"clusters": [{"name": "a", "cluster": {"server": "https://a"}}], "users": [{"name": "a", "user": document}]},
    ):
        assert isinstance(read(each), Access) or str(read(each)).startswith("file f")


@given(st.text(max_size=30), st.text(max_size=30))
def test_addresses_are_read_or_refused(text: str, exceptions: str) -> None:
    """Whatever is typed; what was read reads the same again."""
    for each in (text, f"https://{text}"):
        with suppress(ValueError):
            server = parse_server(each)
            assert parse_server(str(server)) == server
            proxy_from({"HTTPS_PROXY": "p:1", "NO_PROXY": exceptions}, server)
        with suppress(ValueError):
            parse_proxy(each)
