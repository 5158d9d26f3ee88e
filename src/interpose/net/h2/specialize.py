"""Keeping CPython's inline caches warm.

Since 3.11 the interpreter remembers, at each attribute access in a function's code, the one type it saw there. The
frame loop is inherited by two kinds of connections that take turns, so every access would miss. `own_code` gives a
subclass its own copies of the functions it inherits: same source, separate caches.
"""

from collections.abc import Callable
from types import FunctionType
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)


def own_code(*names: str) -> Callable[[_Class], _Class]:
    """A class decorator: these inherited methods get code objects of their own."""

    def decorate(cls: _Class) -> _Class:
        for name in names:
            inherited = getattr(cls, name)
            code = inherited.__code__.replace(co_name=inherited.__code__.co_name)
            copy = FunctionType(code, inherited.__globals__, name, inherited.__defaults__, inherited.__closure__)
            copy.__kwdefaults__ = inherited.__kwdefaults__
            copy.__qualname__ = f"{cls.__qualname__}.{name}"
            copy.__doc__ = inherited.__doc__
            copy.__annotations__ = inherited.__annotations__
            setattr(cls, name, copy)
        return cls

    return decorate
