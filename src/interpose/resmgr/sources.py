"""Where a configuration comes from: settings over the one policy document that counts.

A forced file counts before what an agent sent, that before the fallback file; without any of them the settings are all
there is. Documents are never mixed. Everything here reads files and may take its time: at run time it belongs in a
thread. Invariant: a configuration is complete and consistent in itself, or a ConfigError has all that is wrong with it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from interpose.config.constraints import CpuAmount
from interpose.config.document import MAX_FILE_BYTES, parse_document, read_text
from interpose.config.policy_document import PolicyDocument, read_config_map, read_policy_document
from interpose.config.settings import PolicySettings
from interpose.errors import ConfigError
from interpose.host.cpusets import resolve
from interpose.host.trust import Trust, examine
from interpose.model.cpuset import CpuSet
from interpose.policy.static_pools.options import PoolsOptions
from interpose.resmgr.combining import combine
from interpose.resmgr.configuration import Configuration
from interpose.resmgr.sent import Sent

_log = logging.getLogger(__name__)

_NOTHING: Final = PolicyDocument()
_MAX_REPORTED: Final = 256


def _load_pools(options: PoolsOptions) -> PoolsOptions:
    from interpose.resmgr.poolfiles import load_pools  # only one policy has pools in files

    return load_pools(options)


def _pool_paths(options: PoolsOptions) -> tuple[str, ...]:
    from interpose.resmgr.poolfiles import watched_paths

    return watched_paths(options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What is asked of the machine."""

    resolve: Callable[[CpuAmount, str], CpuSet | int] = resolve
    load_pools: Callable[[PoolsOptions], PoolsOptions] = _load_pools
    pool_paths: Callable[[PoolsOptions], tuple[str, ...]] = _pool_paths
    trust: Trust = field(default_factory=Trust)


class Sources:
    """Computes configurations; remembers nothing but what the agent sent last, and what counts at the moment."""

    def __init__(
        self,
        settings: PolicySettings,
        origins: Mapping[str, str],
        *,
        sent: Sent | None = None,
        outside: Outside | None = None,
    ) -> None:
        """`origins` says where each setting is from, by key; `sent` is what the agent sent in an earlier run."""
        # Who sends nothing takes back what it has sent: a state file cannot tell the two apart either.
        self.sent = sent if sent is not None and sent.data else None
        self.watched: tuple[str, ...] = ()  # files on which the last `current` depends, also if it failed
        self._settings = settings
        self._origins = origins
        self._outside = Outside() if outside is None else outside
        self._reported: set[str] = set()  # warnings that were logged

    @property
    def forced(self) -> str:
        """The file that counts whatever an agent sends; empty if there is none."""
        return self._settings.config

    def at_start(self) -> Configuration:
        """Like `current`, but what an agent sent once and cannot be used any more is set aside: it may send better.

        A file that cannot be used is for the operator to see, at once.
        """
        if self.sent is None or self.forced:
            return self.current()
        try:
            return self.current()
        except ConfigError as error:
            self.set_aside(error.problems)
        return self.current()

    def set_aside(self, problems: Sequence[str]) -> None:
        """Forget what the agent sent, because of this."""
        kv = {"node": self.sent.node_name if self.sent is not None else "", "problems": "; ".join(problems)}
        _log.error("Configuration of the agent cannot be used any more and was set aside", extra={"kv": kv})
        self.sent = None

    def accept(self, sent: Sent) -> None:
        """What the agent sent is in force: from now on it counts."""
        self.sent = sent if sent.data else None

    def current(self) -> Configuration:
        """What shall be in force now."""
        if self.forced or self.sent is None:
            return self._of_files(remember=True)
        return self._of_agent(self.sent, remember=True)

    def of_agent(self, sent: Sent) -> Configuration:
        """What would be in force with this; nothing is remembered of it."""
        return self._of_agent(sent, remember=False) if sent.data else self._of_files(remember=False)

    # -- documents

    def _of_files(self, *, remember: bool) -> Configuration:
        path = self._settings.config or self._settings.fallback
        paths = (path,) if path else ()
        if remember:
            self.watched = paths  # before anything can go wrong with it
        document = self._read(path) if path else _NOTHING
        return self._finish(document, f"file {path}" if path else "settings", paths, remember=remember)

    def _of_agent(self, sent: Sent, *, remember: bool) -> Configuration:
        if remember:
            self.watched = ()
        document = read_config_map(sent.data, sent.node_name)
        return self._finish(document, f"agent of node {sent.node_name}", (), remember=remember)

    def _read(self, path: str) -> PolicyDocument:
        where = f"file {path}"
        try:
            doubts = examine(path, self._outside.trust).doubts
        except OSError as error:
            raise ConfigError(f"{where}: cannot be read: {error.strerror}") from None
        if doubts:
            raise ConfigError([f"{where}: {doubt}" for doubt in doubts])
        text = read_text(path, MAX_FILE_BYTES)
        # Whatever the name ends in: those of the old software end in .cfg.
        return read_policy_document(parse_document(text, where, json_only=path.endswith(".json")), where)

    # -- what documents leave open

    def _finish(
        self, document: PolicyDocument, origin: str, paths: tuple[str, ...], *, remember: bool
    ) -> Configuration:
        draft = combine(self._settings, self._origins, document)
        if remember and isinstance(draft.options, PoolsOptions):
            self.watched = (*paths, *self._outside.pool_paths(draft.options))
        problems: list[str] = []

        def tried(make: Callable[[], Any]) -> Any:
            try:
                return make()
            except ConfigError as error:
                problems.extend(error.problems)
                return None

        available = tried(lambda: self._cpus(draft.available, "available CPUs"))
        reserved = tried(lambda: self._cpus(draft.reserved, "reserved CPUs"))
        options = draft.options
        if isinstance(options, PoolsOptions):
            given = options
            options = tried(lambda: self._outside.load_pools(given))
        if problems:
            raise ConfigError(problems)
        self._warn(document.warnings)
        return Configuration(
            policy=draft.policy, available=available, reserved=reserved, options=options, origin=origin
        )

    def _cpus(self, amount: CpuAmount | None, where: str) -> CpuSet | int | None:
        return None if amount is None else self._outside.resolve(amount, where)

    def _warn(self, warnings: Sequence[str]) -> None:
        """Each thing once, however often documents are read."""
        fresh = [one for one in warnings if one not in self._reported]
        if len(self._reported) > _MAX_REPORTED:
            self._reported.clear()
        self._reported.update(warnings)
        for one in fresh:
            _log.warning("Part of a policy document has no effect", extra={"kv": {"warning": one}})
