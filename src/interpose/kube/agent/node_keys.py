"""Names that clients may set on our node: labels, annotations, taints and resources. Pure.

Names of Kubernetes itself and names that configure the agent cannot be set; other names may be restricted by patterns.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from interpose.core.model.text import quoted

_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_PREFIX: Final = 253
_KUBERNETES: Final = ("kubernetes.io", "k8s.io")

# Where a relay notes what it has published: without it nothing of that could ever be taken back.
PUBLISHED: Final = "interpose/published"
# What this agent says about itself is not for others to write.
STATUS: Final = "interpose/config-status"


def check_name(name: str) -> None:
    """ValueError if it is not a name that a label, an annotation or a taint can have."""
    prefix, slash, rest = name.rpartition("/")
    if slash and (len(prefix) > _MAX_PREFIX or not _PREFIX.fullmatch(prefix)):
        raise ValueError(f"{quoted(name)} does not begin with a domain name in lower case")
    if not _NAME.fullmatch(rest):
        raise ValueError(
            f"{quoted(name)} is not a name: up to 63 letters, digits, '-', '_' and '.', perhaps behind a domain and '/'"
        )


def check_label_value(text: str) -> None:
    """ValueError if no label and no taint can have this value."""
    if not _LABEL_VALUE.fullmatch(text):
        raise ValueError(f"{quoted(text)} is not a value: up to 63 letters, digits, '-', '_' and '.'")


def is_kubernetes_name(name: str) -> bool:
    """Whether it is in a domain that Kubernetes keeps for itself."""
    domain = name.rpartition("/")[0]
    return any(domain == own or domain.endswith(f".{own}") for own in _KUBERNETES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writable:
    """What may be changed: names that fit a pattern, as in a shell, and are not reserved for people."""

    patterns: Collection[str] = ("*",)
    reserved: Collection[str] = ()

    def check(self, name: str) -> None:
        """ValueError if it is not a name, or not one that may be changed."""
        check_name(name)
        if is_kubernetes_name(name):
            raise ValueError(f"{name} is in a domain of Kubernetes and may not be changed")
        if name == STATUS:
            raise ValueError(f"{name} is the agent's own and may not be changed")
        if name in self.reserved:
            raise ValueError(f"{name} says which configuration this node gets and may not be changed")
        if name != PUBLISHED and not any(fnmatchcase(name, pattern) for pattern in self.patterns):
            raise ValueError(f"{name} is not among what may be changed: {', '.join(self.patterns) or 'nothing'}")


EVERYTHING: Final = Writable()
