"""Pods for people."""

from dataclasses import replace

from interpose.cli.render.pods import (
    EventRow,
    PodLine,
    PodRow,
    UsageRow,
    board_lines,
    describe_pod,
    event_table,
    pod_table,
    usage_table,
)

ROW = PodRow(
    namespace="default", name="web", uid="0123456789abcdef", status="Running", running=1, containers=2, age=65.0
)


def test_a_list_has_a_line_for_each_pod() -> None:
    """With its namespace, if there may be several."""
    text = pod_table([ROW], wide=False, namespaces=True)
    assert text.splitlines() == [
        "NAMESPACE  NAME  UP   STATUS   RESTARTS  AGE",
        "default    web   1/2  Running  0         1m5s",
    ]
    assert "NAMESPACE" not in pod_table([ROW], wide=False, namespaces=False)


def test_a_wide_list_has_more() -> None:
    """What is not known is a dash."""
    line = pod_table([ROW], wide=True, namespaces=False).splitlines()[1]
    assert line.split()[5:] == ["-", "0123456789abc", "-"]


def test_a_pod_without_a_sandbox_has_no_age() -> None:
    """Nobody knows when it was made."""
    row = PodRow(namespace="a", name="b", uid="c", status="Unknown", running=0, containers=0)
    assert pod_table([row], wide=False, namespaces=False).splitlines()[1].split()[-1] == "-"


def test_the_title_of_a_pod_has_its_namespace() -> None:
    """If that is known."""
    assert ROW.title == "default/web"
    assert PodRow(namespace="", name="b", uid="b", status="Unknown", running=0, containers=0).title == "b"


def test_usage_has_a_line_for_each_container() -> None:
    """What is not known is a dash."""
    rows = [
        UsageRow(namespace="a", pod="b", container="c", cpu=0.0125, memory=1 << 20, written=0),
        UsageRow(namespace="a", pod="b", container="d"),
    ]
    assert [line.split() for line in usage_table(rows).splitlines()[1:]] == [
        ["a", "b", "c", "12m", "1", "MiB", "0", "B"],
        ["a", "b", "d", "-", "-", "-"],
    ]


def test_everything_about_a_pod_is_in_blocks() -> None:
    """Nothing is said of what is not there; text of others cannot move the cursor."""
    document = {
        "name": "web",
        "imageId": "x\x1b[2J",
        "hostNetwork": False,
        "ips": ["1", "2"],
        "message": "two\nlines\n",
        "labels": {"app": "a"},
        "nothing": "",
        "none": {},
        "containers": [
            {
                "name": "main",
                "restarts": 3,
                "started": "1970-01-01T00:00:10Z",
                "limits": {"cpu": "500m", "memory": "64Mi"},
                "before": {"finished": "1970-01-01T00:00:09Z"},
            }
        ],
        "sandboxes": [{"attempt": 1, "state": "Ready"}],
        "created": "1970-01-01T00:00:00Z",
    }
    assert describe_pod(document, now=70.0).splitlines() == [
        "Name          web",
        "Image ID      x?[2J",
        "Host network  no",
        "IP            1, 2",
        "Message       two",
        "              lines",
        "Labels",
        "  app  a",
        "Containers",
        "  main",
        "    Restarts  3",
        "    Started   1970-01-01T00:00:10Z (1m ago)",
        "    Limits    cpu 500m, memory 64Mi",
        "    Before",
        "      Finished  1970-01-01T00:00:09Z (1m1s ago)",
        "Sandboxes",
        "  attempt 1",
        "    State  Ready",
        "Created       1970-01-01T00:00:00Z (1m10s ago)",
    ]


def shown(*pods: PodLine, width: int = 40, height: int = 10, colour: bool = False) -> list[str]:
    """The picture."""
    return board_lines(pods, turn=0, width=width, height=height, colour=colour)


def test_the_board_has_pods_and_their_containers() -> None:
    """Marks tell how they are."""
    pod = PodLine(name="a/web", words="ready", mark="good", below=(PodLine(name="main", words="pulling"),))
    assert shown(pod) == ["✔ a/web   ready", "  ⠋ main  pulling"]


def test_the_board_fits_the_screen() -> None:
    """Words are cut in their middle: causes stand at the end. In a narrow one only the beginning is left."""
    pod = PodLine(name="a/web", words="it failed because " + "of this and that " * 5 + "and the dog", mark="bad")
    (line,) = shown(pod)
    assert len(line) <= 40
    assert line.endswith("the dog")
    (narrow,) = shown(pod, width=20)
    assert len(narrow) <= 20


def test_pods_that_are_well_are_left_out_first() -> None:
    """And those at the end, if there is no other way."""
    pods = [PodLine(name=f"p{number}", words="x", mark="good" if number == 1 else "busy") for number in range(4)]
    assert shown(*pods, height=4) == ["⠋ p0  x", "⠋ p1  x".replace("⠋", "✔"), "⠋ p2  x", "⠋ p3  x"]
    lines = shown(*pods, height=3)
    assert lines == ["⠋ p0  x", "⠋ p2  x", "  and 2 more pods"]
    assert shown(height=3) == []


def test_colours_are_for_terminals_that_want_them() -> None:
    """Only the mark has one."""
    (line,) = shown(PodLine(name="a", words="✔", mark="good"), colour=True)
    assert line == "\x1b[32m✔\x1b[0m a  ✔"


def test_labels_and_pods_without_a_name_are_shown() -> None:
    """Labels in their order, if they are asked for; for a name what there is of the uid."""
    nameless = replace(ROW, name="", namespace="", labels={"tier": "back", "app": "web"})
    line = pod_table([nameless], wide=False, namespaces=True, labels=True).splitlines()[1]
    assert line.split() == ["-", "0123456789abc", "1/2", "Running", "0", "1m5s", "app=web,tier=back"]
    assert (nameless.title, replace(nameless, name="web").title) == ("0123456789abcdef", "web")


def test_events_are_lines_with_counts() -> None:
    """Names are cut where the line is short, messages never are."""
    event = EventRow(
        object="default/a-rather-long-name/main", type="Normal", reason="Pulled", message="m" * 90, last=5, first=5
    )
    again = replace(event, type="Warning", reason="BackOff", message="no\x1b[2J", first=125, count=3)
    header, first, second = event_table([event, again], 1000).splitlines()
    assert header.split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert first.split() == ["5s", "Normal", "Pulled", "default/a-rather-long-name/main", "m" * 90]
    assert second.split() == ["5s", "(x3", "over", "2m5s)", "Warning", "BackOff", event.object, "no?[2J"]
    short = event_table([event], 60).splitlines()[1].split()
    assert (short[3], short[4]) == ("default…ng-name/main", "m" * 90)
