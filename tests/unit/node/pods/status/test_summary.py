"""A pod for whoever looks at it: what the runtime says now, and what its manager noted."""

from dataclasses import replace

import pytest

from interpose.core.model.pod import ContainerState
from interpose.node.pods.status.phase import ContainerRole, ContainerView, ContainerViewState, PodPhase
from interpose.node.pods.status.pod_state import PodState
from interpose.node.pods.status.summary import LastStatus, PodSummary, from_document, last_status, to_document
from interpose.node.pods.status.types import ContainerStatus, PodStatus, SandboxStatus
from tests.support.node.managed_node import pod

BOX = SandboxStatus(id="s")


def view(
    name: str = "main",
    role: ContainerRole = ContainerRole.MAIN,
    state: ContainerViewState = ContainerViewState.WAITING,
    **values: object,
) -> ContainerView:
    return replace(ContainerView(name=name, role=role, image="b:1", state=state), **values)  # type: ignore[arg-type]


def found(
    name: str = "main", state: ContainerState = ContainerState.RUNNING, code: int = 0, container_id: str = "c"
) -> ContainerStatus:
    return ContainerStatus(id=container_id, name=name, state=state, exit_code=code, image="docker.io/b:1")


def summary(
    *containers: ContainerStatus,
    noted: tuple[ContainerView, ...] | None = None,
    declared: tuple[str, ...] | None = None,
    boxes: tuple[SandboxStatus, ...] = (BOX,),
    stopped: bool = False,
    reason: str = "",
) -> PodSummary:
    note = None if noted is None else LastStatus(containers=noted, reason=reason, message="words", sandbox="s")
    status = PodStatus(uid="u", sandboxes=boxes, containers=containers)
    return PodSummary(status=status, noted=note, declared=declared, stopped=stopped)


PULL = view(reason="ErrImagePull", message="not found")
CRASH = view(reason="CrashLoopBackOff", message="back-off 10 s", id="c", exit_code=3)
EXITED = found(state=ContainerState.EXITED, code=3)


def test_a_container_that_waits_keeps_its_reason() -> None:
    """Also when nobody is there any more who would start it."""
    one = summary(noted=(PULL,))
    assert one.containers == (PULL,)
    assert (one.word, one.message, one.phase) == ("ErrImagePull", "not found", PodPhase.PENDING)


def test_a_container_that_has_ended_and_waits_keeps_both() -> None:
    """The reason of the wait, and how it ended."""
    (main,) = summary(EXITED, noted=(CRASH,)).containers
    assert (main.state, main.reason, main.message, main.exit_code) == (
        ContainerViewState.WAITING,
        "CrashLoopBackOff",
        "back-off 10 s",
        3,
    )


@pytest.mark.parametrize(
    ("container", "noted", "word"),
    [
        (found(), CRASH, "Running"),
        (found(), PULL, "Running"),
        (replace(EXITED, id="later"), CRASH, "Error"),
        (EXITED, PULL, "Error"),
        (EXITED, None, "Error"),
        (found(state=ContainerState.EXITED), None, "Completed"),
        (found(state=ContainerState.UNKNOWN), CRASH, "ContainerStatusUnknown"),
        (found(state=ContainerState.CREATED), CRASH, "CrashLoopBackOff"),
        (found(state=ContainerState.CREATED), view(reason="RunContainerError", id="c"), "RunContainerError"),
        (found(state=ContainerState.CREATED), view(reason="RunContainerError", id="before"), "ContainerCreating"),
        (found(state=ContainerState.CREATED), None, "ContainerCreating"),
        (None, CRASH, "CrashLoopBackOff"),
        (None, view(state=ContainerViewState.RUNNING, id="c"), "ContainerStatusUnknown"),
        (None, view(state=ContainerViewState.TERMINATED, reason="Error", exit_code=1), "Error"),
    ],
)
def test_the_runtime_counts_first(container: ContainerStatus | None, noted: ContainerView | None, word: str) -> None:
    """A note is about the container that it names, and about none that came after it."""
    one = summary(*([container] if container else []), noted=None if noted is None else (noted,))
    assert one.word == word


def test_declared_containers_are_there_without_a_note() -> None:
    """They have yet to begin; those that only the runtime knows come after them, oldest first."""
    one = summary(found("b", container_id="2"), found("a", container_id="1"), declared=("main",))
    assert [(view.name, view.state, view.image) for view in one.containers] == [
        ("main", ContainerViewState.WAITING, ""),
        ("a", ContainerViewState.RUNNING, "docker.io/b:1"),
        ("b", ContainerViewState.RUNNING, "docker.io/b:1"),
    ]
    assert one.word == "ContainerCreating"


def test_images_are_called_as_the_manifest_does() -> None:
    """If it was noted."""
    assert summary(found(), noted=(view(state=ContainerViewState.RUNNING),)).containers[0].image == "b:1"


def test_what_was_wanted_and_has_nothing_is_pending() -> None:
    """Else the runtime knows better; a folder that says nothing does not."""
    assert summary(declared=("main",), boxes=()).phase is PodPhase.PENDING
    assert summary(boxes=()).phase is PodPhase.UNKNOWN
    assert summary(boxes=()).word == "Unknown"
    assert summary(declared=(), boxes=(replace(BOX, ready=False),)).phase is PodPhase.UNKNOWN
    assert summary(found(), declared=("main",)).phase is PodPhase.RUNNING


def init(
    name: str,
    state: ContainerViewState = ContainerViewState.TERMINATED,
    role: ContainerRole = ContainerRole.INIT,
    **values: object,
) -> ContainerView:
    return view(name, role, state, **values)


@pytest.mark.parametrize(
    ("early", "word"),
    [
        ((init("a", exit_code=0),), "Running"),
        ((init("a", exit_code=0), init("b", ContainerViewState.WAITING, reason="ErrImagePull")), "Init:ErrImagePull"),
        ((init("a", exit_code=2, reason="Error"),), "Init:Error"),
        (
            (
                init("a", ContainerViewState.WAITING, reason="ContainerCreating"),
                init("b", ContainerViewState.WAITING, reason=""),
            ),
            "Init:0/2",
        ),
        ((init("a", exit_code=0), init("b", ContainerViewState.WAITING, reason="PodInitializing")), "Init:1/2"),
    ],
)
def test_init_containers_are_told_first(early: tuple[ContainerView, ...], word: str) -> None:
    """As kubectl does it."""
    assert summary(found(), noted=(*early, view(state=ContainerViewState.RUNNING))).word == word


def test_a_sidecar_that_runs_keeps_nobody() -> None:
    """One that has yet to be started does."""
    sidecar = init("proxy", ContainerViewState.RUNNING, ContainerRole.SIDECAR, id="p")
    up = found("proxy", container_id="p")
    assert summary(up, found(), noted=(sidecar, view(state=ContainerViewState.RUNNING))).word == "Running"
    ended = replace(up, state=ContainerState.EXITED, exit_code=0)
    assert summary(ended, found(), noted=(sidecar, view(state=ContainerViewState.RUNNING))).word == "Init:Completed"


def test_an_init_container_that_runs_is_counted() -> None:
    """Those before it are done."""
    running = found("setup", container_id="i")
    assert (
        summary(running, noted=(init("setup", ContainerViewState.RUNNING, id="i"), view(reason="PodInitializing"))).word
        == "Init:0/1"
    )


def test_what_keeps_the_pod_says_more_than_that_it_begins() -> None:
    """If it is about the sandbox that the pod has now."""
    creating = view(reason="ContainerCreating")
    kept = summary(noted=(creating,), reason="FailedCreatePodSandBox")
    assert (kept.word, kept.message) == ("FailedCreatePodSandBox", "words")
    later = (replace(BOX, id="later"),)
    assert summary(noted=(creating,), reason="FailedCreatePodSandBox", boxes=later).word == "ContainerCreating"
    assert summary(noted=(PULL,), reason="FailedMount").word == "ErrImagePull"
    begins = init("setup", ContainerViewState.WAITING, reason="ContainerCreating")
    assert summary(noted=(begins, creating), reason="FailedMount").word == "FailedMount"
    assert summary(found(), noted=(view(state=ContainerViewState.RUNNING),), reason="FailedMount").word == "FailedMount"


def test_a_pod_of_which_one_runs_is_not_completed() -> None:
    """Others may have done their work."""
    ended = found("job", ContainerState.EXITED, container_id="j")
    assert summary(found(), ended).word == "Running"
    assert summary(ended).word == "Completed"


def test_a_pod_stopped_by_hand_says_so() -> None:
    """When it has ended."""
    assert summary(EXITED, noted=(CRASH,), stopped=True).word == "Stopped"
    assert summary(found(), stopped=True).word == "Running"


def test_notes_are_made_of_what_is_seen() -> None:
    """Without how long something still waits, and of bounded length."""
    status = PodStatus(uid="u", sandboxes=(BOX,))
    waits = (replace(CRASH, message="back-off 10 s: next start in 8 s"), replace(PULL, message="x" * 9000))
    state = PodState(pod=pod(), status=status, containers=waits, reason="FailedMount", message="no volume")
    note = last_status(state, 7)
    assert [len(one.message) for one in note.containers] == [13, 4096]
    assert (note.containers[0].message, note.message, note.sandbox, note.since) == (
        "back-off 10 s",
        "no volume",
        "s",
        7,
    )
    assert from_document(to_document(note)) == note
    assert last_status(replace(state, status=PodStatus(uid="u")), 7).sandbox == ""
