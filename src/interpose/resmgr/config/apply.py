"""Another configuration at run time, by a file or by the agent: one at a time, as a whole or not at all.

Who applies it takes care that nothing is left of one that fails. Here is what comes before and after: it is read in a
thread, what is in force already is left alone, and only what is in force is remembered.

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


class Reconfiguring:
    """Belongs to one loop. `apply` raises ConfigError if a configuration cannot be, and then nothing has changed."""

    def __init__(
        self,
        sources: Sources,
        in_force: Configuration,
        apply: Callable[[Configuration], Awaitable[None]],
        *,
        remember: Callable[[AgentConfig], None],
        watch: Callable[[tuple[str, ...]], None],
    ) -> None:
        """`remember` keeps what the agent sent for the next start; `watch` is told on which files we depend."""
        self.in_force = in_force
        self.problems: tuple[str, ...] = ()
        self._sources = sources
        self._apply = apply
        self._remember = remember
        self._watch = watch
        self._lock = asyncio.Lock()
        self._remarks = RateLimited(_log)

    async def by_agent(self, data: Mapping[str, str], node_name: str) -> None:
        """The agent sent this; ConfigError with every reason against it."""
        if self._sources.forced:
            raise ConfigError(f"configuration is forced by {self._sources.forced}")
        sent = AgentConfig(node_name=node_name, data=data)
        async with self._lock:
            await self._become(await asyncio.to_thread(self._sources.of_agent, sent))
            self._sources.accept(sent)
            self._remember(sent)
            # Files may count now that did not before, or no longer. What is wrong with them is not known yet.
            await self._look()

    async def by_files(self) -> None:
        """Files may have changed. What is wrong with them is in `problems` and in the log; nothing is raised."""
        async with self._lock:
            await self._look()

    async def by_machine(self, follow: Callable[[Configuration], Awaitable[None]]) -> None:
        """The machine has changed: what the agent sent may fit again. ConfigError if nothing fits.

        `follow` brings a configuration to the machine as it is, or raises ConfigError and nothing has changed.
        """
        async with self._lock:
            sent = self._sources.again()
            if sent is not None:
                try:
                    configuration = await asyncio.to_thread(self._sources.of_agent, sent)
                    await follow(configuration)
                except ConfigError as error:
                    text = "Configuration of the agent still does not fit"
                    self._remarks.log(logging.WARNING, text, node=sent.node_name, problems="; ".join(error.problems))
                else:
                    self._sources.accept(sent)
                    self._take_note(configuration)
                    await self._look()
                    return
            await follow(self.in_force)

    async def _look(self) -> None:
        try:
            await self._become(await asyncio.to_thread(self._sources.current))
        except ConfigError as error:
            self._complain(tuple(error.problems))
        except Exception as error:
            _log.exception("Failed to apply configuration")
            self._complain((f"{self.in_force.origin}: {type(error).__name__}: {error}",))
        else:
            if self.problems:
                _log.info("Configuration is valid again", extra={"kv": {"origin": self.in_force.origin}})
            self.problems = ()
        self._watch(self._sources.watched)

    async def _become(self, configuration: Configuration) -> None:
        if configuration == self.in_force:
            return
        await self._apply(configuration)
        self._take_note(configuration)

    def _take_note(self, configuration: Configuration) -> None:
        self.in_force = configuration
        kv = {"origin": configuration.origin, "policy": configuration.policy}
        _log.info("Configuration applied", extra={"kv": kv})

    def _complain(self, problems: tuple[str, ...]) -> None:
        if problems != self.problems:
            kv = {"in_force": self.in_force.origin, "problems": "; ".join(problems)}
            _log.error("Invalid configuration, keeping the last valid one", extra={"kv": kv})
        self.problems = problems
