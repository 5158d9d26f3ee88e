"""What the pages of docs/reference say about the runtime and the manager of pods: their metrics."""

import io
import logging
import tempfile
from pathlib import Path

from interpose.cli.common.heartbeat import Heartbeat
from interpose.cli.pod.service import Listening, PodService
from interpose.cli.runtime.admin import RuntimeViews
from interpose.config.runtime.settings import RuntimeSettings
from interpose.cri.wrappers import InstrumentedCaller
from interpose.log import LineHandler, LogControl
from interpose.metrics import Family, gather
from interpose.node.runtime.service.wiring import RuntimeOptions, open_runtime

RUNTIME_METRICS_INTRO = """\
On the admin socket of `interpose runtime`, and on `--metrics-listen`.

- As above: {common}.
- `method` is that of a [CRI method](cri-methods.md), `code` gRPC's. `state` is that of CRI.
- Counters of the methods that a kubelet uses all the time are there at zero from the start."""

POD_METRICS_INTRO = """\
Of `interpose pod run --watch` with `--admin-listen` or `--metrics-listen`.

- As above: {common}; and `interpose_runtime_operations_*` of its calls, as in [the runtime's](#runtime).
- `phase` is that of a pod in Kubernetes. `reason` is a word of the kubelet's, `other` for any that is no failure; all
  are there at zero from the start."""


def pod_families() -> list[Family]:
    """Every family the manager of pods can show."""
    return gather(PodService((), Listening()).collectors())


async def runtime_families() -> list[Family]:
    """Every family the runtime can show. Nothing is started."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        runtime = open_runtime(
            RuntimeOptions(root=root / "root", state=root / "state", executor="plain", stream_host=None)
        )
        log = LogControl(logging.getLogger("page"), LineHandler(io.StringIO()))
        calls = InstrumentedCaller(runtime)
        try:
            return gather(RuntimeViews(RuntimeSettings(), {}, runtime, calls, Heartbeat([]), log).collectors())
        finally:
            await runtime.close()
