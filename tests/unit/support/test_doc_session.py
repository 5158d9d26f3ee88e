"""Pages as sessions: files and commands are found, and a page that says something else is."""

import pytest

from tests.support.doc_session import commands_of, files_of, fits

PAGE = """\
Some words.

```yaml
# pod.yaml
kind: Pod
```

```
$ interpose pod run -f pod.yaml \\
    --watch
up, 3s
$ interpose pod ls
...
```

```
interpose relay          # is not run
```
"""


def test_files_are_found_by_their_names() -> None:
    """With their whole text."""
    assert files_of(PAGE) == {"pod.yaml": "# pod.yaml\nkind: Pod\n"}


def test_commands_come_with_what_they_print() -> None:
    """In their order; what has no prompt is no command."""
    first, second = commands_of(PAGE)
    assert first.line.split() == ["interpose", "pod", "run", "-f", "pod.yaml", "--watch"]
    assert first.printed == ("up, 3s",)
    assert (second.line, second.printed) == ("interpose pod ls", ("...",))


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        (["a  3s  192.0.2.7"], ["a 2m10s 10.0.0.1"]),
        (["id b243b44a2b62, 1.9 MiB"], ["id 0123456789abcdef, 17 B"]),
        (["a", "...", "c"], ["a", "b", "b", "c"]),
        (["a", "...", "c"], ["a", "c"]),
        (["at 2026-01-02T03:04:05Z"], ["at 1999-12-31T23:59:59.123Z"]),
    ],
)
def test_what_changes_from_run_to_run_fits(printed: list[str], found: list[str]) -> None:
    """And dots stand for any lines."""
    assert fits(printed, found)


@pytest.mark.parametrize(
    ("printed", "found"),
    [(["a", "c"], ["a", "b", "c"]), (["ready"], ["failed"]), (["1 pod up"], ["2 pods up"]), (["a"], [])],
)
def test_what_is_said_otherwise_does_not_fit(printed: list[str], found: list[str]) -> None:
    """Lines, words and numbers."""
    assert not fits(printed, found)
