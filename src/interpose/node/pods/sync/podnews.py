"""What is worth a line in the log when a pod looks different than before."""

import logging

from interpose.core.model.pod import ContainerState
from interpose.node.pods.status.pod_state import PodState
from interpose.node.pods.sync.result import Reason


def log_changes(log: logging.Logger, before: PodState | None, state: PodState) -> None:
    """Say what has become of it; of a pod that is seen for the first time only that it is ready, or over."""
    about = {"pod": state.pod.title}
    if state.ready and (before is None or not before.ready):
        log.info("Pod is ready", extra={"kv": {**about, "ips": ", ".join(state.status.ips)}})
    if state.phase.final and (before is None or before.phase is not state.phase):
        log.info("Pod terminated", extra={"kv": {**about, "phase": state.phase.value, "reason": state.reason}})
    if before is None:
        return
    ran = {one.id for one in before.status.containers if one.state is ContainerState.RUNNING}
    for one in state.status.containers:
        if one.id in ran and one.state is ContainerState.EXITED:
            details = {**about, "container": one.name, "exit_code": one.exit_code, "reason": one.reason}
            log.info("Container terminated", extra={"kv": details})
    waited = {one.name for one in before.containers if one.reason == Reason.CRASH_LOOP}
    for view in state.containers:
        if view.reason == Reason.CRASH_LOOP and view.name not in waited:
            details = {**about, "container": view.name, "reason": view.message}
            log.info("Container restart delayed (back-off)", extra={"kv": details})
