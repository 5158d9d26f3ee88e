"""The one table of the hook server's settings, and what no single row of it can say."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from interpose.config.common import admin_rows, logging_rows, row
from interpose.config.hookserver.settings import HookServerSettings
from interpose.config.schema import Schema, Setting
from interpose.config.values import (
    choice,
    directory,
    duration,
    endpoint,
    integer,
    listen_or_none,
    switch,
    text,
    uids,
    words,
)

PREFIX: Final = "INTERPOSE_HOOKSERVER_"


_row: Final = partial(row, PREFIX)


HOOKSERVER_SETTINGS: tuple[Setting, ...] = (
    _row(
        "mode",
        "--mode",
        choice("proxy", "standalone", "both"),
        about=(
            "How values reach pods: proxy answers a relay's hook calls, standalone watches the runtime and "
            "puts values right afterwards."
        ),
        why=(
            "Values of the create request are there before the first process runs; both also repairs what "
            "others change."
        ),
    ),
    _row(
        "listen",
        "--listen",
        endpoint(optional=False),
        about="Socket on which hooks are served.",
        why="A directory of our own, beside the relay's socket.",
    ),
    _row(
        "nodeslo",
        "--nodeslo",
        directory(optional=True),
        about=(
            "File with the NodeSLO, or with the whole state of the node. YAML or JSON, watched. Empty: none, "
            "plugins that need one stay off."
        ),
        why="There is no policy to guess.",
    ),
    _row(
        "runtime_endpoint",
        "--runtime-endpoint",
        endpoint(optional=True),
        about=(
            "CRI socket on which running pods are seen and updated. Empty: the relay's own default socket in "
            "the modes proxy and both, else the first existing well-known runtime socket."
        ),
        why="Through the relay, an update passes all hooks and the kubelet's view stays right.",
    ),
    _row(
        "relay_admin",
        "--relay-admin",
        listen_or_none(),
        about=(
            "Admin socket of the relay on this node: a path, a loopback address, or none. The relay is asked which "
            "values its policy decides; these are neither written nor restored."
        ),
        why="The relay's own default. That nobody is there is normal.",
    ),
    _row(
        "state_dir",
        "--state-dir",
        directory(),
        about="Directory of the journal: which values were found before the first change.",
        why="Survives a restart of the service and is of no use after one of the machine.",
    ),
    _row(
        "kubelet_state_dir",
        "--kubelet-state-dir",
        directory(),
        about="Directory of the kubelet's cpu_manager_state.",
        why="Where kubelets keep it.",
    ),
    *admin_rows(9096, PREFIX),
    _row(
        "registration.dir",
        "--hooks-dir",
        directory(),
        about="Directory for the registration file. It is made if it is missing.",
        why="Where relays look, ours and Koordinator's.",
    ),
    _row(
        "registration.name",
        "--registration-name",
        text(),
        about="Name of the registration file, without .json.",
        why="Tells whose it is.",
    ),
    _row(
        "registration.host_endpoint",
        "--host-endpoint",
        endpoint(optional=True),
        about=(
            "Path of our socket as the relay sees it, if that differs: the host's path when we run in a "
            "container. Empty: as we see it."
        ),
        why="Both see the same path unless we run in a container.",
    ),
    _row(
        "registration.failure_policy",
        "--failure-policy",
        choice("Ignore", "Fail"),
        about=(
            "What a relay does when it cannot ask us: Ignore goes on without us, Fail refuses the call. Under "
            "Fail the file stays when we exit."
        ),
        why="A node without co-location rules is better than a node without pods.",
    ),
    _row(
        "registration.priority",
        "--priority",
        integer(0, 1000),
        about="Our place among several hook servers, lower first.",
        why="The default of every hook server.",
    ),
    _row(
        "registration.timeout",
        "--hook-timeout",
        duration(0.001, 60.0),
        about="Time a relay gives us for one call.",
        why="Answers take a millisecond; the relay's own default.",
    ),
    _row(
        "hooks.plugin_failure_policy",
        "--plugin-failure-policy",
        choice("Ignore", "Fail"),
        about=(
            "What happens when a plugin fails in a hook call: Ignore answers with what the others want, Fail "
            "refuses the call."
        ),
        why="One bad annotation shall not keep a pod from starting.",
    ),
    _row(
        "hooks.plugin_timeout",
        "--plugin-timeout",
        duration(0.01, 30.0),
        about="Time one plugin has for one call; one that takes longer is left out for a minute.",
        why="Plugins only compute: microseconds, or something is wrong.",
    ),
    _row(
        "hooks.disable_stages",
        "--disable-stages",
        words(),
        about="Hook points that are not served, such as PreRunPodSandbox.",
        why="All are served that some plugin needs.",
    ),
    _row(
        "hooks.allow_uids",
        "--allow-uids",
        uids(),
        about="User ids that may connect to the hook socket. Empty: root and our own.",
        why="Whoever can ask us can make us write cgroup files.",
    ),
    _row(
        "reconcile.interval",
        "--reconcile-interval",
        duration(0.1, 3600.0),
        about=(
            "Time between two rounds in which everything is compared with what it shall be, in the modes "
            "standalone and both."
        ),
        why="What others change is put right within this time; events are acted upon at once.",
    ),
    _row(
        "reconcile.kubelet_url",
        "--kubelet-url",
        text(),
        about=(
            "The kubelet's list of pods, such as https://127.0.0.1:10250/pods. Empty: it is not asked, the "
            "runtime knows enough."
        ),
        why="Works without the kubelet; with it, changed annotations of running pods are seen.",
    ),
    _row(
        "reconcile.kubelet_token_file",
        "--kubelet-token-file",
        directory(optional=True),
        about="File with the bearer token for it, read again for each question.",
        why="In a cluster, the token of the service account.",
    ),
    _row(
        "reconcile.kubelet_ca_file",
        "--kubelet-ca-file",
        directory(optional=True),
        about="File with the certificates its certificate is checked against. Empty: the system's.",
        why="Kubelets are signed by the cluster.",
    ),
    _row(
        "reconcile.kubelet_insecure",
        "--kubelet-insecure",
        switch(),
        about="Do not check the kubelet's certificate.",
        why="Off: whoever answers decides what pods get.",
    ),
    _row(
        "cgroups.root",
        "--cgroup-root",
        directory(),
        about="Where cgroups are mounted.",
        why="Where every distribution mounts them.",
    ),
    _row(
        "cgroups.driver",
        "--cgroup-driver",
        choice("auto", "systemd", "cgroupfs"),
        about="How the kubelet names cgroups; auto looks which of the two is there.",
        why="It can be seen.",
    ),
    _row(
        "cgroups.kubepods",
        "--kubepods",
        text(),
        about=(
            "Name of the cgroup above all pods, without .slice, with what the kubelet's --cgroup-root puts before it."
        ),
        why="The kubelet's.",
    ),
    _row(
        "cgroups.proc_root",
        "--proc-root",
        directory(),
        about="Where /proc of the host is.",
        why="Where it is, unless we run in a container without the host's processes.",
    ),
    _row(
        "cgroups.sys_root",
        "--sys-root",
        directory(),
        about="Where /sys of the host is.",
        why="Where it is.",
    ),
    _row(
        "plugins.group_identity",
        "--group-identity",
        switch(),
        about="Rank pods by CPU priority (cpu.bvt_warp_ns).",
        why="As in koordlet.",
    ),
    _row(
        "plugins.group_identity_fallback",
        "--group-identity-fallback",
        choice("none", "idle", "shares"),
        about=(
            "What group identity uses on a kernel without cpu.bvt_warp_ns: nothing, cpu.idle or cpu.shares of "
            "pods that rank lowest."
        ),
        why="Neither is the same as the real thing, so somebody has to choose it.",
    ),
    _row(
        "plugins.cpuset",
        "--cpuset",
        switch(),
        about="Give pods the CPUs the scheduler chose, or the share pools.",
        why="As in koordlet.",
    ),
    _row(
        "plugins.unset_cpu_quota",
        "--unset-cpu-quota",
        switch(),
        about="Take the CPU limit away from pods with CPUs of their own.",
        why="A quota throttles pods that have whole CPUs.",
    ),
    _row(
        "plugins.be_cpu_manager",
        "--be-cpu-manager",
        switch(),
        about="Keep best-effort pods with a NUMA allocation on the CPUs of its nodes.",
        why="As in koordlet.",
    ),
    _row(
        "plugins.numa_mems",
        "--numa-mems",
        switch(),
        about="Keep memory of pods with a NUMA allocation on its nodes.",
        why="Off: memory that runs out on one node ends processes.",
    ),
    _row(
        "plugins.batch_resource",
        "--batch-resource",
        switch(),
        about="Turn batch and mid resources of pods into shares, limits and memory.",
        why="As in koordlet.",
    ),
    _row(
        "plugins.cpu_normalization",
        "--cpu-normalization",
        switch(),
        about="Scale CPU limits by how fast the CPUs of this node are.",
        why="As in koordlet.",
    ),
    _row(
        "plugins.core_sched",
        "--core-sched",
        switch(),
        about="Let only pods of one group share a physical core (core scheduling).",
        why="As in koordlet.",
    ),
    _row(
        "plugins.oom_score",
        "--oom-score",
        switch(),
        about="Set the OOM score that a pod's annotations ask for.",
        why="As in koordlet.",
    ),
    _row(
        "plugins.resctrl",
        "--resctrl",
        switch(),
        about="Partition the last-level cache and memory bandwidth for pods that ask for it.",
        why="As in koordlet.",
    ),
    _row(
        "plugins.gpu_env",
        "--gpu-env",
        switch(),
        about="Tell containers which GPUs they were given, by environment variables.",
        why="As in koordlet.",
    ),
    _row(
        "plugins.hami_library",
        "--hami-library",
        directory(),
        about="Path of the HAMi library that limits GPU memory inside containers.",
        why="Where its installer puts it.",
    ),
    _row(
        "plugins.external",
        "--external-plugins",
        words(),
        about=(
            "Plugins of installed Python packages that are on (entry points in interpose.hook_plugins), in the order "
            "in which they run, after our own."
        ),
        why="None: a package that is only installed changes nothing.",
    ),
    *logging_rows(PREFIX, why_level="Info reports changes, not rounds in which nothing changed."),
)


def contradictions(settings: HookServerSettings, origins: Mapping[str, str]) -> list[str]:
    """What no single value shows."""
    problems = [
        f"{origins[key]}: {key} is the socket we listen on ourselves: {settings.listen!r}"
        for key, value in (("runtime_endpoint", settings.runtime_endpoint), ("admin.listen", settings.admin.listen))
        if value == settings.listen
    ]
    name = settings.registration.name
    if not name or "/" in name or name.startswith("."):
        problems.append(f"{origins['registration.name']}: registration.name: {name!r} is not the name of a file")
    kubepods = settings.cgroups.kubepods.strip("/").split("/")
    if any(part in ("", ".", "..") for part in kubepods):
        shown = settings.cgroups.kubepods
        problems.append(f"{origins['cgroups.kubepods']}: cgroups.kubepods: {shown!r} is not the name of a cgroup")
    external = settings.plugins.external
    if twice := sorted({name for name in external if external.count(name) > 1}):
        problems.append(f"{origins['plugins.external']}: plugins.external: {', '.join(twice)} appears more than once")
    url = settings.reconcile.kubelet_url
    if url and not url.startswith(("http://", "https://", "unix://", "file://")):
        problems.append(f"{origins['reconcile.kubelet_url']}: reconcile.kubelet_url: {url!r} is not a URL")
    return problems


HOOKSERVER = Schema(
    program="interpose hookserver",
    file_kind="HookServerConfig",
    settings=HookServerSettings,
    table=HOOKSERVER_SETTINGS,
    titles=MappingProxyType(
        {
            "": "General",
            "admin": "Admin socket",
            "registration": "Registration",
            "hooks": "Hook calls",
            "reconcile": "Rounds",
            "cgroups": "Cgroups",
            "plugins": "Plugins",
            "logging": "Logging",
        }
    ),
    contradictions=contradictions,
    prefix=PREFIX,
)
