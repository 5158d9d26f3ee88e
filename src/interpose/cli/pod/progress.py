"""Progress of pods that are brought up: a picture that changes in place on a terminal, else lines.

Gets steps while they are done (`on_progress`) and pods as they are then (`observe`); the latest counts.
"""

import shutil
from collections.abc import Iterable
from typing import Final, TextIO

from interpose.cli.render.pods import PodLine, board_lines
from interpose.cli.render.text import or_dash
from interpose.node.pods.status.phase import ContainerRole, ContainerView, ContainerViewState, PodPhase
from interpose.node.pods.status.pod_state import REPLACING, STOPPED, PodState, StartOutcome, StartResult
from interpose.node.pods.sync.result import ProgressEvent, ProgressPhase, StepReason, without_countdown

_MARKS: Final = {
    StartOutcome.WAITING: "busy",
    StartOutcome.READY: "good",
    StartOutcome.SUCCEEDED: "good",
    StartOutcome.FAILED: "bad",
}
_WITH_DETAIL: Final = (
    ProgressPhase.PULLING,
    ProgressPhase.PULLED,
    ProgressPhase.WAITING,
    ProgressPhase.FAILED,
    ProgressPhase.SANDBOX_READY,
    ProgressPhase.STOPPING,
    ProgressPhase.PRE_STOP_FAILED,
)
# Too much as lines; the terminal shows them while they last.
_BRIEF: Final = (ProgressPhase.IMAGE_PRESENT, ProgressPhase.CREATING, ProgressPhase.STARTING)
# Shown as the state that the pod has then.
_NOT_SHOWN: Final = (ProgressPhase.UNHEALTHY, ProgressPhase.EXPIRED)


class ProgressBoard:
    """Shows pods. `in_place` needs a terminal; `quiet` shows nothing."""

    def __init__(self, stream: TextIO, *, in_place: bool, quiet: bool = False, colour: bool = False) -> None:
        self._stream = stream
        self._in_place = in_place and not quiet
        self._quiet = quiet
        self._colour = colour
        self._pods: dict[str, dict[str, tuple[str, str]]] = {}  # words and mark by container, "" is the pod
        self._last_lines: dict[tuple[str, str], str] = {}
        self._drawn = 0
        self._turn = 0
        self._alone = False  # failures are reported here and nowhere else

    def expect(self, titles: Iterable[str]) -> None:
        """Set the pods to show, in their order; others are shown no more."""
        known = self._pods
        self._pods = {title: known.get(title, {"": ("", "busy")}) for title in titles}

    # -- events ------------------------------------------------------------------------------------------------------

    def on_progress(self, event: ProgressEvent) -> None:
        """A step of a pod is being done."""
        if event.phase in _NOT_SHOWN:
            return
        words, detail = event.reason.value or event.phase.value, event.detail
        if event.phase is ProgressPhase.WAITING:
            detail = _drop_cause(detail)
        if detail and event.phase in _WITH_DETAIL:
            words = f"{words}: {detail}" if event.reason else f"{words} {detail}"
        mark = {ProgressPhase.FAILED: "bad", ProgressPhase.WAITING: "wait"}.get(event.phase, "busy")
        self._set(event.pod, event.container, words, mark)
        if event.phase not in _BRIEF:
            # Another container of the same name is shown again, also if there was no line in between.
            key = f"{words} {event.detail}" if event.phase is ProgressPhase.STARTED else ""
            self._line(event.pod, event.container, words, key=key)

    def observe(self, state: PodState, result: StartResult) -> None:
        """Show a pod as it is now, and the result of its start."""
        title = state.pod.title
        known = self._pods.get(title, {})  # of a pod that just left nothing is shown
        for view in state.containers:
            if view.role is ContainerRole.EPHEMERAL and not view.id:
                continue
            words, mark = describe_container(view)
            known[view.name] = (words, mark)
            # Waits and failures came as steps; ends come from the runtime only.
            if view.state is ContainerViewState.TERMINATED:
                self._line(title, view.name, words)
        words, mark = describe_pod(state, result)
        known[""] = (words, mark)
        is_final = result.outcome in (StartOutcome.READY, StartOutcome.SUCCEEDED) or state.reason == REPLACING
        if is_final or (result.outcome is StartOutcome.FAILED and self._alone):
            self._line(title, "", words, key="failed" if result.outcome is StartOutcome.FAILED else words)

    def say(self, text: str) -> None:
        """A line of its own, above the picture."""
        if not self._quiet:
            self.clear()
            self._stream.write(or_dash(text) + "\n")
            self._stream.flush()

    def _set(self, pod: str, container: str, words: str, mark: str) -> None:
        if pod in self._pods:
            self._pods[pod][container] = (words, mark)

    # -- showing -----------------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """The picture as it is now; nothing where lines are written."""
        if not self._in_place:
            return
        self._turn += 1
        screen = shutil.get_terminal_size()
        lines = board_lines(
            self._lines(), turn=self._turn, width=screen.columns, height=screen.lines - 1, colour=self._colour
        )
        # To the first column, too: the terminal may have shown a key in the meantime, such as ^C.
        up = f"\r\x1b[{self._drawn}A" if self._drawn else ""
        self._stream.write(up + "".join(f"\x1b[2K{line}\n" for line in lines) + "\x1b[0J")
        self._stream.flush()
        self._drawn = len(lines)

    def clear(self) -> None:
        """Take the picture away, for other text."""
        if self._drawn:
            self._stream.write(f"\r\x1b[{self._drawn}A\x1b[0J")
            self._stream.flush()
            self._drawn = 0

    def finish(self, *, alone: bool = False) -> None:
        """Leave the last picture where it is and go on with lines below it; with `alone` also of pods that fail."""
        self.draw()
        self._drawn = 0
        self._in_place = False
        self._alone = alone

    def _lines(self) -> list[PodLine]:
        return [
            PodLine(
                name=title,
                words=parts[""][0],
                mark=parts[""][1],
                below=tuple(PodLine(name=name, words=of[0], mark=of[1]) for name, of in parts.items() if name),
            )
            for title, parts in self._pods.items()
        ]

    def _line(self, pod: str, container: str, words: str, *, key: str = "") -> None:
        key = without_countdown(key or words)
        if self._last_lines.get((pod, container)) == key:
            return
        self._last_lines[(pod, container)] = key
        if self._quiet or self._in_place:
            return
        name = f"{pod}/{container}" if container else pod
        self._stream.write(f"{or_dash(name)}: {or_dash(words)}\n")
        self._stream.flush()


def describe_container(view: ContainerView) -> tuple[str, str]:
    """The words for a container, and its mark."""
    if view.state is ContainerViewState.RUNNING:
        restarts = f", restarted {view.restart_count} times" if view.restart_count > 1 else ""
        restarts = ", restarted once" if view.restart_count == 1 else restarts
        return (f"running{restarts}", "good") if view.ready else (f"running, not ready yet{restarts}", "busy")
    message = " ".join(view.message.split())
    if view.state is ContainerViewState.TERMINATED:
        good = view.exit_code == 0
        words = "completed" if good else f"{view.reason or 'ended'}, exit code {view.exit_code}"
        return words + (f": {message}" if message and not good else ""), "good" if good else "bad"
    if view.reason in ("ContainerCreating", "PodInitializing"):
        return "waiting for its turn", "busy"
    waits = view.reason in (StepReason.CRASH_LOOP, StepReason.IMAGE_BACKOFF)
    if waits:
        message = _drop_cause(message)
    mark = "wait" if waits else "bad"
    code = f" (exit code {view.exit_code})" if view.exit_code else ""
    return f"{view.reason}{code}: {message}" if message else f"{view.reason}{code}", mark


def _drop_cause(message: str) -> str:
    """The end of a message about a wait: until when; the cause stands beside it."""
    return message.rpartition(": ")[2]


def describe_pod(state: PodState, result: StartResult) -> tuple[str, str]:
    """The words for a pod, and its mark."""
    mark = _MARKS[result.outcome]
    if state.reason == STOPPED:
        return "stopped by hand", "wait"
    match result.outcome:
        case StartOutcome.READY:
            return " ".join(("ready", ", ".join(state.status.ips))).strip(), mark
        case StartOutcome.SUCCEEDED:
            return "succeeded", mark
        case StartOutcome.FAILED:
            return f"failed: {result.reason}", mark
    if state.reason == REPLACING:
        return "waiting for the pod of this name to end", mark
    if state.reason:
        return f"{state.reason}: {state.message}", "wait"
    return ("starting" if state.phase is PodPhase.PENDING else state.phase.value.lower()), mark
