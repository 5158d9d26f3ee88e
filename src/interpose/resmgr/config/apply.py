"""Another configuration at run time, by a file or by the agent: one at a time, as a whole or not at all.

`apply` takes care that nothing is left of one that fails. Here is what comes before and after: it is read in a thread,
what is in force already is left alone, and only what is in force is stored.

Invariant: `in_force` is what was applied last, `problems` is what is wrong with the files as they are now.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from interpose.errors import ConfigError
from interpose.log import RateLimited
from interpose.resmgr.config.configuration import AgentConfig, Configuration
from interpose.resmgr.config.sources import Sources

_log = logging.getLogger(__name__)


class ConfigApplier:
    """Applies configurations one at a time, on one loop.

    `apply` raises ConfigError if a configuration cannot be applied, and then nothing has changed.
    """

    def __init__(
        self,
        sources: Sources,
        in_force: Configuration,
        apply: Callable[[Configuration], Awaitable[None]],
        *,
        remember: Callable[[AgentConfig], None],
        watch: Callable[[tuple[str, ...]], None],
    ) -> None:
        """`remember` stores what the agent sent for the next start.

        `watch` is called with the files on which the configuration depends.
        """
        self.in_force = in_force
        self.problems: tuple[str, ...] = ()
        self._sources = sources
        self._apply = apply
        self._remember = remember
        self._watch = watch
        self._lock = asyncio.Lock()
        self._rate_limited = RateLimited(_log)

    async def apply_agent_config(self, data: Mapping[str, str], node_name: str) -> None:
        """Apply what the agent sent; ConfigError with every reason against it."""
        if self._sources.forced:
            raise ConfigError(f"configuration is forced by {self._sources.forced}")
        sent = AgentConfig(node_name=node_name, data=data)
        async with self._lock:
            await self._apply_if_new(await asyncio.to_thread(self._sources.preview_agent_config, sent))
            self._sources.accept(sent)
            self._remember(sent)
            # Files may count now that did not before, or no longer. What is wrong with them is not known yet.
            await self._reload()

    async def reload_files(self) -> None:
        """Read the files again. What is wrong with them is in `problems` and in the log; nothing is raised."""
        async with self._lock:
            await self._reload()

    async def follow_machine(self, follow: Callable[[Configuration], Awaitable[None]]) -> None:
        """Adapt to a machine that has changed: what the agent sent may fit again. ConfigError if nothing fits.

        `follow` brings a configuration to the machine as it is, or raises ConfigError and nothing has changed.
        """
        async with self._lock:
            sent = self._sources.unfit_agent_config()
            if sent is not None:
                try:
                    configuration = await asyncio.to_thread(self._sources.preview_agent_config, sent)
                    await follow(configuration)
                except ConfigError as error:
                    text = "Configuration of the agent still does not fit"
                    self._rate_limited.log(
                        logging.WARNING, text, node=sent.node_name, problems="; ".join(error.problems)
                    )
                else:
                    self._sources.accept(sent)
                    self._on_applied(configuration)
                    await self._reload()
                    return
            await follow(self.in_force)

    async def _reload(self) -> None:
        try:
            await self._apply_if_new(await asyncio.to_thread(self._sources.current))
        except ConfigError as error:
            self._report_problems(tuple(error.problems))
        except Exception as error:
            _log.exception("Failed to apply configuration")
            self._report_problems((f"{self.in_force.origin}: {type(error).__name__}: {error}",))
        else:
            if self.problems:
                _log.info("Configuration is valid again", extra={"kv": {"origin": self.in_force.origin}})
            self.problems = ()
        self._watch(self._sources.watched)

    async def _apply_if_new(self, configuration: Configuration) -> None:
        if configuration == self.in_force:
            return
        await self._apply(configuration)
        self._on_applied(configuration)

    def _on_applied(self, configuration: Configuration) -> None:
        self.in_force = configuration
        kv = {"origin": configuration.origin, "policy": configuration.policy}
        _log.info("Configuration applied", extra={"kv": kv})

    def _report_problems(self, problems: tuple[str, ...]) -> None:
        if problems != self.problems:
            kv = {"in_force": self.in_force.origin, "problems": "; ".join(problems)}
            _log.error("Invalid configuration, keeping the last valid one", extra={"kv": kv})
        self.problems = problems
