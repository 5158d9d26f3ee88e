"""What the backend of attacks does, by the path of a call. CRI's own names: a proxy may treat others differently."""

from typing import Final

_SERVICE: Final = b"/runtime.v1.RuntimeService/"

QUICK: Final = _SERVICE + b"Version"
"""Answered at once with a few bytes."""
MIDDLING: Final = _SERVICE + b"ListContainers"
"""Answered at once with 4 KB."""
BIG: Final = _SERVICE + b"ListPodSandbox"
"""Answered at once with 200 KB."""
STALLED: Final = _SERVICE + b"ExecSync"
"""Never answered, and no credit for what is uploaded."""
TAKEN: Final = _SERVICE + b"UpdateContainerResources"
"""Uploads are taken as they come; answered at their end."""
FLOOD: Final = _SERVICE + b"Status"
"""Answered with interim responses without end."""
INTERCEPTED: Final = _SERVICE + b"CreateContainer"
"""As QUICK; a relay with a policy or hooks reads it."""
