"""Values that know secrets."""

from interpose.kube.client.access import Access, ClientIdentity, ExecPlugin
from interpose.net.http.address import parse_proxy, parse_server
from interpose.net.http.tls import Pem


def test_secrets_are_not_shown() -> None:
    """The text of an access can be logged."""
    plugin = ExecPlugin(
        api_version="v1", command="c", args=("hidden",), environment=(("X", "hidden"),), cluster="hidden"
    )
    user = ClientIdentity(token="hidden", name="me", password="hidden", key=Pem(text="hidden"), plugin=plugin)
    proxy = parse_proxy("http://a:hidden@b")
    access = Access(server=parse_server("https://a"), source="file x", user=user, proxy=proxy)
    text = repr(access)
    assert "hidden" not in text
    assert "Basic" not in text
    assert "file x" in text


def test_pem_that_is_not_there() -> None:
    """Neither a file nor a text."""
    assert not Pem()
    assert Pem(file="x")
    assert Pem(text="x")
