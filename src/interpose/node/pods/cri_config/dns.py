"""Names of a pod and how names are looked up in it: hostname, /etc/hosts, resolv.conf. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from interpose.core.model.text import quoted
from interpose.node.pods.spec import HostAlias, PodSpec

MAX_HOSTNAME: Final = 63
MAX_FQDN: Final = 64  # what the kernel can hold
_MAX_SERVERS: Final = 3
_MAX_SEARCHES: Final = 32
_MAX_SEARCH_TEXT: Final = 2048
_CLUSTER_OPTIONS: Final = ("ndots:5",)

# Programs that check whether a hosts file is the node's or a managed one look for these words.
_HOSTS: Final = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
_NODE_HOSTS: Final = "# Kubernetes-managed hosts file (host network).\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvConf:
    """What a resolv.conf says."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDns:
    """The same for a pod, with what a person should know about how it came about."""

    resolv: ResolvConf
    notes: tuple[str, ...] = ()


def parse_resolv(text: str) -> ResolvConf:
    """A resolv.conf; as for the resolver, the last search line counts, and unknown lines do not."""
    servers: list[str] = []
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    for line in text.splitlines():
        words = line.split()
        if not words or words[0][0] in "#;":
            continue
        match words[0]:
            case "nameserver" if len(words) > 1:
                servers.append(words[1])
            case "search" | "domain":
                searches = tuple(name if name == "." else name.removesuffix(".") for name in words[1:])
            case "options":
                options += tuple(words[1:])
    return ResolvConf(servers=tuple(servers), searches=searches, options=options)


def pod_dns(pod: PodSpec, of_node: ResolvConf, cluster_dns: Sequence[str] = (), cluster_domain: str = "") -> PodDns:
    """How names are looked up in the pod, by its dnsPolicy and dnsConfig."""
    notes: list[str] = []
    base = of_node
    in_cluster = pod.dns_policy == "ClusterFirstWithHostNet" or (
        pod.dns_policy == "ClusterFirst" and not pod.host_network
    )
    if pod.dns_policy == "None":
        base = ResolvConf()
    elif in_cluster and cluster_dns:
        base = ResolvConf(
            servers=tuple(cluster_dns),
            searches=_once((*_cluster_searches(pod.namespace, cluster_domain), *of_node.searches)),
            options=_CLUSTER_OPTIONS,
        )
    elif in_cluster:
        notes.append(f"dnsPolicy {pod.dns_policy}: no DNS of a cluster is set, the node's is used (as with Default)")
    own = pod.dns_config
    servers = _once((*base.servers, *own.nameservers))
    searches = _once((*base.searches, *own.searches))
    fitting = _fitting(searches[:_MAX_SEARCHES])
    if len(servers) > _MAX_SERVERS:
        notes.append(f"of {len(servers)} nameservers the first {_MAX_SERVERS} are used")
    if len(fitting) < len(searches):
        notes.append(f"of {len(searches)} search domains the first {len(fitting)} are used")
    resolv = ResolvConf(servers=servers[:_MAX_SERVERS], searches=fitting, options=_merged(base.options, own.options))
    return PodDns(resolv=resolv, notes=tuple(notes))


def _cluster_searches(namespace: str, domain: str) -> tuple[str, ...]:
    return (f"{namespace}.svc.{domain}", f"svc.{domain}", domain) if domain else ()


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _fitting(searches: tuple[str, ...]) -> tuple[str, ...]:
    while len(" ".join(searches)) > _MAX_SEARCH_TEXT:
        searches = searches[:-1]
    return searches


def _merged(base: Sequence[str], own: Sequence[tuple[str, str | None]]) -> tuple[str, ...]:
    """Options by name; the pod's own win."""
    found = {option.partition(":")[0]: option for option in base}
    found |= {name: name if value is None else f"{name}:{value}" for name, value in own}
    return tuple(found.values())


# -- the pod's own name


def hostname(pod: PodSpec) -> str:
    """The short name: the manifest's or the pod's, cut where the kernel's limit is."""
    return (pod.hostname or pod.name)[:MAX_HOSTNAME].rstrip("-.")


def domain(pod: PodSpec, cluster_domain: str) -> str:
    """The domain of a pod with a subdomain."""
    return f"{pod.subdomain}.{pod.namespace}.svc.{cluster_domain}" if pod.subdomain else ""


def kernel_hostname(pod: PodSpec, cluster_domain: str) -> str:
    """What `hostname` says in the pod; empty in the node's network. ValueError if the full name is too long for it."""
    if pod.host_network:
        return ""
    short, rest = hostname(pod), domain(pod, cluster_domain)
    if not pod.hostname_as_fqdn or not rest:
        return short
    full = f"{short}.{rest}"
    if len(full) > MAX_FQDN:
        raise ValueError(
            f"setHostnameAsFQDN: {quoted(full)} has {len(full)} characters, a hostname can have {MAX_FQDN}"
        )
    return full


def hosts_file(pod: PodSpec, ips: Sequence[str], cluster_domain: str) -> str:
    """The /etc/hosts of a pod with a network of its own."""
    short, rest = hostname(pod), domain(pod, cluster_domain)
    names = f"{short}.{rest}\t{short}" if rest else short
    return _HOSTS + "".join(f"{ip}\t{names}\n" for ip in ips) + _aliases(pod.host_aliases)


def node_hosts_file(pod: PodSpec, of_node: str) -> str:
    """The /etc/hosts of a pod in the node's network."""
    return _NODE_HOSTS + of_node + _aliases(pod.host_aliases)


def _aliases(aliases: Sequence[HostAlias]) -> str:
    if not aliases:
        return ""
    lines = "".join("\t".join((alias.ip, *alias.hostnames)) + "\n" for alias in aliases)
    return f"\n# Entries added by HostAliases.\n{lines}"
