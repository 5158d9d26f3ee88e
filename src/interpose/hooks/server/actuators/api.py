"""What puts a value where it belongs: the seam between deciding and doing.

Errors are OSErrors. FileNotFoundError and ProcessLookupError: the target is gone, which is normal. ENOTSUP: this
kernel has no such thing. Everything else is the kernel's opinion of the value.
"""

from typing import Protocol, runtime_checkable

from interpose.core.model.cgroup import Parameter, Value
from interpose.hooks.server.targets import ActuatorTarget


class Actuator(Protocol):
    """Reads and writes some of the parameters. Called from threads; targets are never worked on by two at a time."""

    def read(self, target: ActuatorTarget, parameter: Parameter) -> Value | None:
        """The value in force; None if there is none of one's own (no group, no process)."""

    def write(self, target: ActuatorTarget, parameter: Parameter, value: Value) -> None:
        """Put a value there. What is found afterwards is read again by the caller."""

    def same(self, parameter: Parameter, found: Value | None, wanted: Value) -> bool:
        """Whether what is found is what writing the wanted value leads to, on this kernel."""


@runtime_checkable
class RuntimeComparison(Protocol):
    """What an actuator has besides if runtimes write some of its values, too."""

    def same_by_runtime(self, parameter: Parameter, found: Value | None, wanted: Value) -> bool:
        """Whether what is found is what a runtime makes of the wanted value, on this kernel."""
