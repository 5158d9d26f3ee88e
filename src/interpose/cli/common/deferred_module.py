"""A module that is loaded when it is used, for those that libraries import at their top and hardly ever call."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class DeferredModule(ModuleType):
    """Takes the place of a module, which is loaded when a name is wanted that is not set here."""

    _real: ModuleType | None = None

    def __getattr__(self, name: str) -> Any:
        """Names of the import system say that nothing is loaded."""
        if name.startswith("__"):
            raise AttributeError(name)
        if self._real is None:
            del sys.modules[self.__name__]
            try:
                self._real = import_module(self.__name__)
            finally:
                sys.modules[self.__name__] = self
        return getattr(self._real, name)


def defer(name: str) -> None:
    """Load this module when something of it is used. One that is loaded by now stays."""
    sys.modules.setdefault(name, DeferredModule(name))
