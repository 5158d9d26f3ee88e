"""What a container is made of, for any input: either a sound document or an error that names its field."""

import json
import string
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interpose.cri.messages import cri
from interpose.node.runtime.cgroups import usage
from interpose.node.runtime.cgroups import usage as netcounters
from interpose.node.runtime.fs import mount_table
from interpose.node.runtime.network import conf, results
from interpose.node.runtime.oci import capabilities, signals
from interpose.node.runtime.oci.resources import merge_resources, oci_resources
from interpose.node.runtime.oci.spec import container_spec
from interpose.node.runtime.oci.spec_types import HostFacts, SandboxFacts, SpecError
from interpose.node.runtime.oci.users import ResolvedUser, parse
from tests.support.node.oci_bundle import PlainImage

TEXTS = st.text(max_size=20)
NUMBERS = st.integers(min_value=-(2**31), max_value=2**31 - 1)
NAMES = st.lists(st.sampled_from([*capabilities.ALL, "ALL", "kill", "nonsense"]), max_size=4)
MOUNTS = st.builds(
    cri.Mount,
    container_path=st.text(alphabet="/ab.\0", max_size=8),
    host_path=st.text(alphabet="/ab.\0", max_size=8),
    readonly=st.booleans(),
    recursive_read_only=st.booleans(),
    propagation=st.integers(0, 3),
)
CONTEXTS = st.builds(
    cri.LinuxContainerSecurityContext,
    privileged=st.booleans(),
    readonly_rootfs=st.booleans(),
    capabilities=st.builds(
        cri.Capability, add_capabilities=NAMES, drop_capabilities=NAMES, add_ambient_capabilities=NAMES
    ),
    namespace_options=st.builds(cri.NamespaceOption, pid=st.integers(0, 4), ipc=st.integers(0, 2)),
    seccomp=st.builds(cri.SecurityProfile, profile_type=st.integers(0, 3), localhost_ref=TEXTS),
    apparmor_profile=st.sampled_from(["", "unconfined", "localhost/x", "odd"]),
)
RESOURCES = st.builds(
    cri.LinuxContainerResources,
    cpu_shares=NUMBERS,
    cpu_quota=NUMBERS,
    memory_limit_in_bytes=NUMBERS,
    oom_score_adj=NUMBERS,
    cpuset_cpus=st.sampled_from(["", "0-3"]),
    unified=st.dictionaries(TEXTS, TEXTS, max_size=2),
)
CONFIGS = st.builds(
    cri.ContainerConfig,
    command=st.lists(TEXTS, max_size=3),
    envs=st.lists(st.builds(cri.KeyValue, key=TEXTS, value=st.binary(max_size=10)), max_size=3),
    mounts=st.lists(MOUNTS, max_size=3),
    linux=st.builds(cri.LinuxContainerConfig, security_context=CONTEXTS, resources=RESOURCES),
)
SANDBOX = SandboxFacts(id="s", config=cri.PodSandboxConfig(), pause_pid=1, namespaces=frozenset({"network", "pid"}))


@given(config=CONFIGS, ours=st.sets(st.sampled_from(capabilities.ALL)), version=st.sampled_from([1, 2]))
def test_a_document_or_an_error(config: cri.ContainerConfig, ours: set[str], version: int) -> None:
    """Nobody gets what we do not have, nothing is mounted over the root, nobody is privileged by chance."""
    host = HostFacts(capabilities=tuple(ours), cgroup_version=version, architectures=("SCMP_ARCH_X86_64",))
    try:
        spec = container_spec(
            config, SANDBOX, PlainImage(), ResolvedUser(), host=host, container_id="c", rootfs="/r", target_pid=5
        )
    except SpecError:
        return
    json.dumps(spec)
    sets = spec["process"]["capabilities"]
    assert set(sets["bounding"]) <= ours
    assert set(sets.get("ambient", ())) <= set(sets["permitted"])
    places = [one["destination"] for one in spec["mounts"]]
    assert "/" not in places
    assert all(place.startswith("/") and ".." not in place.split("/") for place in places)
    if not config.linux.security_context.privileged:
        assert spec["linux"]["resources"]["devices"][0] == {"allow": False, "access": "rwm"}


@given(old=RESOURCES, new=RESOURCES)
def test_a_patch_twice_is_a_patch_once(old: Any, new: Any) -> None:
    """And what it says is in force afterwards."""
    host = HostFacts(cgroup_version=1)
    first, second = oci_resources(old, host), oci_resources(new, host)
    merged = merge_resources(first, second)
    assert merge_resources(merged, second) == merged
    assert all(merged[key][name] == value for key in second for name, value in second[key].items())


FILES = st.text(alphabet=string.ascii_letters + string.digits + ":\n,#-", max_size=80)


@given(user=st.text(alphabet="ab01:-", max_size=8), passwd=FILES, group=FILES)
def test_users_are_numbers_in_range_or_an_error(user: str, passwd: str, group: str) -> None:
    """Whatever an image has in its files."""
    try:
        found = parse(user, passwd, group)
    except SpecError:
        return
    assert found.uid >= 0
    assert found.gid >= 0


@given(text=st.text(max_size=200))
def test_texts_of_the_kernel_never_surprise(text: str) -> None:
    """Parsers of its files give something for everything."""
    mount_table.parse(text)
    netcounters.parse_net_dev(text)
    usage.oom_kills(text)
    assert usage.parse_v1(dict.fromkeys(usage.V1_FILES, text)).memory_available is None or text.strip().isdigit()
    usage.parse_v2(dict.fromkeys(usage.V2_FILES, text))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS | st.just("10.1.0.2/24"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "type", "plugins", "ips", "ip4", "ip", "address", "interfaces", "sandbox", "interface"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(document=JSON)
def test_documents_of_the_network_are_read_or_refused(document: object) -> None:
    """With a ValueError and nothing else."""
    text = json.dumps(document)
    for read in (lambda: conf.parse(text, "f"), lambda: results.net_result(results.parse_result(text))):
        try:
            read()
        except ValueError:
            continue


@given(text=st.text(max_size=12))
def test_signals_are_signals(text: str) -> None:
    """Between 1 and 64."""
    try:
        assert 1 <= signals.number(text) <= 64
    except ValueError:
        return
