"""How long calls took, drawn."""

from xml.etree import ElementTree as ET

from interpose.dump.output.latency import LatencyRow, latency_svg

SPACE = "{http://www.w3.org/2000/svg}"


def row(method: str, *durations: int, **values: int | bool) -> LatencyRow:
    """A method."""
    known: dict[str, int | bool] = {"calls": len(durations), "errors": 0, "unfinished": 0, "stream": False}
    return LatencyRow(method=method, durations=durations, **(known | values))  # type: ignore[arg-type]


def texts(svg: str) -> list[str]:
    """What is written in a drawing."""
    return [one.text or "" for one in ET.fromstring(svg).iter(f"{SPACE}text")]


def test_each_method_has_a_lane_with_its_numbers() -> None:
    """On a scale of powers of ten."""
    rows = [row("PullImage", 2_310_000_000, errors=1), row("Version", 400_000, 500_000)]
    found = texts(latency_svg(rows, "a.crirec"))
    assert found[:2] == ["a.crirec", "3 calls of 2 methods, 1 failed"]
    assert {"100µs", "10s", "PullImage", "Version", "2.31s", "400µs"} <= set(found)


def test_streams_and_nothing_at_all_have_a_drawing_too() -> None:
    """Without a scale."""
    assert "stream" in texts(latency_svg([row("GetContainerEvents", stream=True, calls=1)], "a"))
    assert texts(latency_svg([], "a"))[1] == "0 calls of 0 methods, 0 failed"


def test_names_of_others_are_no_markup() -> None:
    """And cannot break the file."""
    svg = latency_svg([row("<script>\x00&\udc80", 1)], "</svg>\u2028")
    assert "<script" not in svg
    assert texts(svg)[0] == "</svg>?"
