"""Names: the pod's own, and how others are looked up."""

from typing import Any

import pytest

from interpose.node.pods.cri_config.dns import (
    ResolvConf,
    domain,
    hostname,
    hosts_file,
    kernel_hostname,
    node_hosts_file,
    parse_resolv,
    pod_dns,
)
from interpose.node.pods.spec import ContainerSpec, DnsConfig, HostAlias, PodSpec

NODE = ResolvConf(servers=("1.1.1.1", "2.2.2.2"), searches=("corp", "svc.cluster.local"), options=("rotate", "ndots:1"))
CLUSTER = ("10.96.0.10",)


def pod(**more: Any) -> PodSpec:
    """A pod."""
    return PodSpec(
        **{"name": "p", "namespace": "ns", "uid": "u", "containers": (ContainerSpec(name="c", image="i"),), **more}
    )


def test_a_resolv_conf_is_read_as_the_resolver_does() -> None:
    """The last search line counts, comments and unknown lines do not, trailing dots go."""
    text = """
# nameserver 9.9.9.9
; comment
nameserver 1.1.1.1
nameserver
nameserver\t2.2.2.2 more
domain old
search corp. a.b .
options ndots:2 rotate
options timeout:1
sortlist 1.2.3.4
"""
    assert parse_resolv(text) == ResolvConf(
        servers=("1.1.1.1", "2.2.2.2"), searches=("corp", "a.b", "."), options=("ndots:2", "rotate", "timeout:1")
    )


SEARCHES = ("ns.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp")


@pytest.mark.parametrize(
    ("policy", "host_network", "cluster", "expected", "noted"),
    [
        ("Default", False, CLUSTER, NODE, False),
        ("None", False, CLUSTER, ResolvConf(), False),
        ("ClusterFirst", False, CLUSTER, ResolvConf(servers=CLUSTER, searches=SEARCHES, options=("ndots:5",)), False),
        ("ClusterFirst", True, CLUSTER, NODE, False),
        ("ClusterFirst", False, (), NODE, True),
        ("ClusterFirst", True, (), NODE, False),
        (
            "ClusterFirstWithHostNet",
            True,
            CLUSTER,
            ResolvConf(servers=CLUSTER, searches=SEARCHES, options=("ndots:5",)),
            False,
        ),
        ("ClusterFirstWithHostNet", True, (), NODE, True),
    ],
)
def test_policies(policy: str, host_network: bool, cluster: tuple[str, ...], expected: ResolvConf, noted: bool) -> None:
    """Every policy, with and without a cluster and a network of its own."""
    found = pod_dns(pod(dns_policy=policy, host_network=host_network), NODE, cluster, "cluster.local")
    assert found.resolv == expected
    assert bool(found.notes) is noted


def test_a_cluster_without_a_domain_adds_no_searches() -> None:
    """Only the node's are left."""
    assert pod_dns(pod(), NODE, CLUSTER).resolv.searches == NODE.searches


def test_the_pods_own_additions() -> None:
    """Nothing twice; options by name, the pod's win."""
    own = DnsConfig(
        nameservers=("2.2.2.2", "3.3.3.3"), searches=("mine", "corp"), options=(("ndots", "3"), ("edns0", None))
    )
    found = pod_dns(pod(dns_policy="Default", dns_config=own), NODE)
    assert found.resolv == ResolvConf(
        servers=("1.1.1.1", "2.2.2.2", "3.3.3.3"),
        searches=("corp", "svc.cluster.local", "mine"),
        options=("rotate", "ndots:3", "edns0"),
    )
    assert found.notes == ()


def test_what_a_resolver_cannot_take_is_cut_and_said() -> None:
    """Three servers, 32 search domains."""
    own = DnsConfig(nameservers=tuple("1234"), searches=tuple(f"d{number}" for number in range(40)))
    found = pod_dns(pod(dns_policy="None", dns_config=own), NODE)
    assert found.resolv.servers == ("1", "2", "3")
    assert len(found.resolv.searches) == 32
    assert found.notes == ("of 4 nameservers the first 3 are used", "of 40 search domains the first 32 are used")


def test_long_search_domains_are_cut_by_their_length() -> None:
    """2048 characters with the blanks between."""
    own = DnsConfig(searches=tuple(f"{number}{'x' * 99}" for number in range(25)))
    searches = pod_dns(pod(dns_policy="None", dns_config=own), NODE).resolv.searches
    assert len(" ".join(searches)) <= 2048 < len(" ".join(searches)) + 101


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, "p"),
        ({"hostname": "h"}, "h"),
        ({"name": "a" * 70}, "a" * 63),
        ({"name": "a" * 61 + "-.b"}, "a" * 61),
        ({"hostname": "h", "subdomain": "s"}, "h"),
        ({"hostname": "h", "subdomain": "s", "hostname_as_fqdn": True}, "h.s.ns.svc.cluster.local"),
        ({"hostname": "h", "hostname_as_fqdn": True}, "h"),
        ({"hostname": "h", "host_network": True}, ""),
    ],
)
def test_the_hostname(more: dict[str, Any], expected: str) -> None:
    """As `hostname` says it in the pod."""
    assert kernel_hostname(pod(**more), "cluster.local") == expected


def test_a_full_name_that_the_kernel_cannot_hold_is_refused() -> None:
    """With the name and both lengths."""
    with pytest.raises(ValueError, match=r"setHostnameAsFQDN: 'p\.s+\.ns\.svc\.d' has 65 characters, .* have 64"):
        kernel_hostname(pod(subdomain="s" * 54, hostname_as_fqdn=True), "d")


def test_short_name_and_domain() -> None:
    """Without a subdomain there is no domain."""
    assert (hostname(pod()), domain(pod(), "d"), domain(pod(subdomain="s"), "d")) == ("p", "", "s.ns.svc.d")


def test_the_hosts_file() -> None:
    """A line for each address, then the aliases."""
    aliases = (HostAlias(ip="1.2.3.4", hostnames=("a", "b")), HostAlias(ip="::2", hostnames=("c",)))
    text = hosts_file(pod(subdomain="s", host_aliases=aliases), ("10.1.0.2", "fd01::2"), "d")
    assert text.startswith("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n")
    assert text.endswith(
        "10.1.0.2\tp.s.ns.svc.d\tp\nfd01::2\tp.s.ns.svc.d\tp\n\n"
        "# Entries added by HostAliases.\n1.2.3.4\ta\tb\n::2\tc\n"
    )
    assert hosts_file(pod(), ("10.1.0.2",), "d").endswith("ip6-allrouters\n10.1.0.2\tp\n")


def test_the_hosts_file_in_the_nodes_network() -> None:
    """The node's, with the aliases."""
    aliases = (HostAlias(ip="1.2.3.4", hostnames=("a",)),)
    text = node_hosts_file(pod(host_aliases=aliases), "127.0.0.1 localhost\n")
    assert text == (
        "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n\n"
        "# Entries added by HostAliases.\n1.2.3.4\ta\n"
    )
