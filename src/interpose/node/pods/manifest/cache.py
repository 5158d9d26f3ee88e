"""Which texts of manifests count when some of them are wrong, or want what others have. Pure.

Who was there first keeps what it has: a file as it was agreed upon before is never asked to give way to one that came
or changed since. So nothing that is written into one file ends the pods of another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from interpose.node.pods.manifest.reader import FolderPods, combined
from interpose.node.pods.spec import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """The pods that are wanted, in the order of their files; what is wrong with which file; the texts that count."""

    pods: tuple[Pod, ...] = ()
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


NOTHING = Agreed()


def agree(texts: Mapping[str, str], before: Agreed = NOTHING) -> Agreed:
    """The next agreement, from the texts as they are now and from the one before.

    A text that has a problem gives way to the one before it, or is left out. If it is the same as before, others made
    it wrong (a ConfigMap that it needs went): then its pods stay as they were.
    """
    chosen = dict(texts)
    problems: dict[str, tuple[str, ...]] = {}
    while True:
        found = combined(_oldest_first(chosen, before.texts))
        wrong = {**found.problems, **_emptied(found, before.texts)}
        newcomers = [file for file in wrong if chosen[file] != before.texts.get(file)]
        if not newcomers:
            break
        for file in newcomers:
            problems[file] = wrong[file]
            if file in before.texts:
                chosen[file] = before.texts[file]
            else:
                del chosen[file]
    problems.update({file: why for file, why in wrong.items() if file not in problems})
    kept = [pod for pod in before.pods if pod.source in wrong and not _given(pod, found.pods)]
    order = {file: place for place, file in enumerate(texts)}
    pods = sorted([*found.pods, *kept], key=lambda pod: order[pod.source])
    return Agreed(pods=tuple(pods), problems=problems, texts={file: chosen[file] for file in texts if file in chosen})


def _oldest_first(chosen: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    return dict(sorted(chosen.items(), key=lambda item: before.get(item[0]) != item[1]))


def _emptied(found: FolderPods, before: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """A file that held something and holds nothing is being written, or its disk is full: nobody says so that he wants
    its pods no more."""
    known = combined({file: before[file] for file in found.empty if file in before})
    return {
        file: (f"file {file}: holds nothing any more; remove the file to end its pods",)
        for file in sorted(found.empty)
        if file in before and file not in known.empty
    }


def _given(pod: Pod, pods: tuple[Pod, ...]) -> bool:
    return any(pod.uid == one.uid or pod.title == one.title for one in pods)
