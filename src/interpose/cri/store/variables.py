"""Environment variables of containers, each kept once: service links give all containers of a namespace the same ones.

60 of them are 11 KB, for every container anew; as references to those of another container they are half a KB.
Not compiled: there a pair is two values, of which each use makes another object.
"""

from typing import Final

# Those of some namespaces with a dozen services each; more of them cost memory, not correctness.
_MOST: Final = 2048


class VariableTable:
    """The variables that were seen lately. Bounded: a full table begins anew, and what it had shared stays shared."""

    def __init__(self, most: int = _MOST) -> None:
        self._known: dict[tuple[str, bytes], tuple[str, bytes]] = {}
        self._most = most

    def __len__(self) -> int:
        return len(self._known)

    def shared(self, variables: tuple[tuple[str, bytes], ...]) -> tuple[tuple[str, bytes], ...]:
        """The same variables in the same order; those that were seen before are the objects they were then."""
        known = self._known
        if len(variables) > self._most:
            return variables
        if len(known) + len(variables) > self._most:
            known.clear()
        return tuple([known.setdefault(variable, variable) for variable in variables])
