"""Files of /etc."""

from interpose.cri.messages import cri
from interpose.node.runtime.fs.etc_files import hosts, line_problem, resolv_conf


def test_resolv_conf() -> None:
    """What is asked for, or the node's own."""
    dns = cri.DNSConfig(servers=["10.0.0.10", "10.0.0.11"], searches=["a", "b"], options=["ndots:5"])
    text = "search a b\nnameserver 10.0.0.10\nnameserver 10.0.0.11\noptions ndots:5\n"
    assert resolv_conf(dns, "nameserver 9.9.9.9\n") == text
    assert resolv_conf(cri.DNSConfig(), "nameserver 9.9.9.9\n") == "nameserver 9.9.9.9\n"


def test_hosts() -> None:
    """The node's for a pod in its network."""
    assert hosts("1.2.3.4 node\n", shares_network=True) == "1.2.3.4 node\n"
    assert "localhost" in hosts("1.2.3.4 node\n", shares_network=False)
    assert "localhost" in hosts("", shares_network=True)


def test_values_that_are_no_word() -> None:
    """They would be more than what they are meant to be."""
    assert line_problem(cri.DNSConfig(servers=["1.1.1.1"], options=["ndots:5"])) is None
    assert "searches" in str(line_problem(cri.DNSConfig(searches=["a b"])))
    assert "options" in str(line_problem(cri.DNSConfig(options=[""])))
