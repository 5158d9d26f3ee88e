"""Where a configuration comes from: settings over the one policy document that counts.

A forced file counts before what an agent sent, that before the fallback file; without any of them the settings are all
there is. Documents are never mixed. Everything here reads files and may take its time: at run time it belongs in a
thread. Invariant: a configuration is complete and consistent in itself, or a ConfigError has all that is wrong with it.

A relay must start although what an agent sent does not fit at the moment, or has yet to come. Then the next source
stands in for it, which the configuration says, and what was sent is kept: it may fit again.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from interpose.config.documents.amounts import CpuAmount
from interpose.config.documents.policy import PolicyDocument
from interpose.config.documents.policy_objects import read_policy_file, read_sent_config
from interpose.config.documents.yaml import MAX_FILE_BYTES, parse_document, read_text
from interpose.config.relay.settings import PolicySettings
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.balloons.options import BalloonsOptions
from interpose.core.policy.constraints import ExcludedCpus
from interpose.core.policy.external import ExternalOptions
from interpose.core.policy.names import NONE
from interpose.core.policy.static_pools.options import PoolsOptions
from interpose.errors import ConfigError
from interpose.host.cpusets import resolve
from interpose.host.file_trust import Trust, examine
from interpose.resmgr.config.configuration import AgentConfig, Configuration
from interpose.resmgr.config.merge import combine, is_set

_log = logging.getLogger(__name__)

_NOTHING: Final = PolicyDocument()
_MAX_REPORTED: Final = 256
_WAITS: Final = "policy static-pools waits for pools from the agent: nobody else says what they are"


def _load_pools(options: PoolsOptions) -> PoolsOptions:
    from interpose.resmgr.config.pool_files import load_pools  # only one policy has pools in files

    return load_pools(options)


def _pool_paths(options: PoolsOptions) -> tuple[str, ...]:
    from interpose.resmgr.config.pool_files import watched_paths

    return watched_paths(options)


def _pools_are_missing(options: PoolsOptions) -> bool:
    from interpose.resmgr.config.pool_files import pools_are_missing

    return pools_are_missing(options)


def _load_policy(options: ExternalOptions) -> ExternalOptions:
    from interpose.resmgr.config.external_policy import load_policy  # only one policy is in another package

    return load_policy(options)


def find_devices(options: BalloonsOptions, root: str = "/") -> BalloonsOptions:
    """The options with what a host says about the devices in them."""
    from interpose.resmgr.config.device_files import load_devices  # only one policy is about devices of sysfs

    return load_devices(options, root)


def _accept_any(_configuration: Configuration) -> None:
    """The default of `fits`: every configuration does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAccess:
    """Functions that read files, cgroups and installed packages of the machine."""

    resolve: Callable[[CpuAmount, str], CpuSet | ExcludedCpus | int] = resolve
    load_pools: Callable[[PoolsOptions], PoolsOptions] = _load_pools
    pool_paths: Callable[[PoolsOptions], tuple[str, ...]] = _pool_paths
    pools_are_missing: Callable[[PoolsOptions], bool] = _pools_are_missing
    load_policy: Callable[[ExternalOptions], ExternalOptions] = _load_policy
    load_devices: Callable[[BalloonsOptions], BalloonsOptions] = find_devices
    trust: Trust = field(default_factory=Trust)


class Sources:
    """Computes configurations; stores only what the agent sent last, and which files count at the moment."""

    def __init__(
        self,
        settings: PolicySettings,
        origins: Mapping[str, str],
        *,
        sent: AgentConfig | None = None,
        host: HostAccess | None = None,
    ) -> None:
        """`origins` says where each setting is from, by key; `sent` is what the agent sent in an earlier run."""
        # An agent that sends nothing takes back what it has sent: a state file cannot tell the two apart either.
        self.sent = sent if sent is not None and sent.data else None
        self.watched: tuple[str, ...] = ()  # files on which the last `current` depends, also if it failed
        self._settings = settings
        self._origins = origins
        self._host = HostAccess() if host is None else host
        self._reported: set[str] = set()  # warnings that were logged
        self._unfit: tuple[str, ...] = ()  # why what the agent sent is not in force
        self._waits_for_agent = False  # for pools that only the agent has

    @property
    def forced(self) -> str:
        """The file that counts whatever an agent sends; empty if there is none."""
        return self._settings.config

    def load_initial(self, fits: Callable[[Configuration], object] = _accept_any) -> Configuration:
        """Like `current`, but the next source stands in for what an agent sent once and does not fit now.

        `fits` raises ConfigError if a configuration cannot be on this machine. A file that cannot be used is for the
        operator to see, at once.
        """
        self._waits_for_agent = self._settings.config_socket != "none" and not self.forced
        if self.sent is not None and not self.forced:
            try:
                configuration = self.current()
                fits(configuration)
                self._waits_for_agent = _WAITS in configuration.fallback_reasons
                return configuration
            except ConfigError as error:
                self._unfit = tuple(error.problems)
            kv = {"node": self.sent.node_name, "problems": "; ".join(self._unfit)}
            _log.error("Agent configuration does not fit this node yet, kept for later", extra={"kv": kv})
        configuration = self.current()
        self._waits_for_agent = _WAITS in configuration.fallback_reasons
        fits(configuration)
        return configuration

    def accept(self, sent: AgentConfig) -> None:
        """Use what the agent sent from now on: it is in force."""
        self.sent = sent if sent.data else None
        self._unfit = ()
        self._waits_for_agent = False

    def current(self) -> Configuration:
        """Read the configuration that shall be in force now; ConfigError with all problems."""
        if self.sent is not None and not self.forced and not self._unfit:
            return self._of_agent(self.sent, remember=True)
        found = self._of_files(remember=True)
        self._waits_for_agent = self._waits_for_agent and _WAITS in found.fallback_reasons
        return replace(found, fallback_reasons=(*self._unfit, *found.fallback_reasons))

    def unfit_agent_config(self) -> AgentConfig | None:
        """What the agent sent and does not fit, so that a fallback is in force.

        None if there is none. It may fit now.
        """
        return self.sent if self._unfit else None

    def preview_agent_config(self, sent: AgentConfig) -> Configuration:
        """The configuration that would be in force with this; nothing is stored."""
        return self._of_agent(sent, remember=False) if sent.data else self._of_files(remember=False)

    # -- documents

    def _of_files(self, *, remember: bool) -> Configuration:
        path = self._settings.config or self._settings.fallback
        paths = (path,) if path else ()
        if remember:
            self.watched = paths  # before anything can go wrong with it
        document = self._read(path) if path else _NOTHING
        return self._finish(document, f"file {path}" if path else "settings", paths, remember=remember)

    def _of_agent(self, sent: AgentConfig, *, remember: bool) -> Configuration:
        if remember:
            self.watched = ()
        document = read_sent_config(sent.data, sent.node_name)
        return self._finish(document, f"agent of node {sent.node_name}", (), remember=remember)

    def _read(self, path: str) -> PolicyDocument:
        where = f"file {path}"
        try:
            doubts = examine(path, self._host.trust).doubts
        except OSError as error:
            raise ConfigError(f"{where}: cannot be read: {error.strerror}") from None
        if doubts:
            raise ConfigError([f"{where}: {doubt}" for doubt in doubts])
        text = read_text(path, MAX_FILE_BYTES)
        # Whatever the name ends in: those of the old software end in .cfg.
        return read_policy_file(parse_document(text, where, json_only=path.endswith(".json")), where)

    # -- what documents leave open

    def _finish(
        self, document: PolicyDocument, origin: str, paths: tuple[str, ...], *, remember: bool
    ) -> Configuration:
        draft = combine(self._settings, self._origins, document, origin)
        if remember and isinstance(draft.options, PoolsOptions):
            self.watched = (*paths, *self._host.pool_paths(draft.options))
        problems: list[str] = []

        def collect_problems(make: Callable[[], Any]) -> Any:
            try:
                return make()
            except ConfigError as error:
                problems.extend(error.problems)
                return None

        available = collect_problems(lambda: self._cpus(draft.available, "available CPUs"))
        reserved = collect_problems(lambda: self._cpus(draft.reserved, "reserved CPUs"))
        options, waits = draft.options, False
        if isinstance(options, PoolsOptions):
            pools = options
            waits = remember and self._waits_for_pools(pools)
            options = None if waits else collect_problems(lambda: self._host.load_pools(pools))
        if isinstance(options, ExternalOptions):
            external = options
            options = collect_problems(lambda: self._host.load_policy(external))
        if isinstance(options, BalloonsOptions):
            options = self._host.load_devices(options)
        if problems:
            raise ConfigError(problems)
        self._warn((*document.warnings, *draft.notes))
        if waits:
            return Configuration(policy=NONE, origin=origin, notes=draft.notes, fallback_reasons=(_WAITS,))
        return Configuration(
            policy=draft.policy,
            available=available,
            reserved=reserved,
            options=options,
            migrate_memory=draft.migrate_memory,
            origin=origin,
            notes=draft.notes,
        )

    def _waits_for_pools(self, options: PoolsOptions) -> bool:
        """Whether an agent may send pools, and there are no others."""
        configured = is_set("pools_dir", self._settings, self._origins)
        return self._waits_for_agent and not configured and self._host.pools_are_missing(options)

    def _cpus(self, amount: CpuAmount | None, where: str) -> CpuSet | ExcludedCpus | int | None:
        return None if amount is None else self._host.resolve(amount, where)

    def _warn(self, warnings: Sequence[str]) -> None:
        """Log each warning once, however often documents are read."""
        fresh = [warning for warning in warnings if warning not in self._reported]
        if len(self._reported) > _MAX_REPORTED:
            self._reported.clear()
        self._reported.update(warnings)
        for warning in fresh:
            _log.warning("Part of a policy document has no effect", extra={"kv": {"warning": warning}})
