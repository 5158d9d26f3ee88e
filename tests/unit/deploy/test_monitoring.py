"""deploy/monitoring: alerts and dashboard speak of metrics and labels that our programs really export."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.kube.plain_documents import Document, read_documents
from tests.support.kube.promql import Named, expressions_of, metric_of, named

# Generated from the collectors; a check of its own keeps it up to date.
REFERENCE = Path(__file__).parents[3] / "docs/reference/metrics.md"
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", re.MULTILINE)
# Labels and metrics that Prometheus adds to what it scrapes, as in prometheus-scrape.yaml.
SCRAPED = frozenset(("job", "instance", "node", "le"))
OF_PROMETHEUS = frozenset(("up",))
SEVERITIES = ("critical", "warning", "info")


@pytest.fixture(scope="module")
def exported() -> dict[str, tuple[str, frozenset[str]]]:
    """Every metric with its kind and labels."""
    found = {
        name: (kind, frozenset(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in ROW.findall(REFERENCE.read_text())
    }
    assert len(found) > 50
    return found


@pytest.fixture(scope="module")
def rules(deploy: Path) -> Document:
    """The rule file."""
    [found] = read_documents(deploy / "monitoring/prometheus-rules.yaml")
    return found


@pytest.fixture(scope="module")
def dashboard(deploy: Path) -> dict[str, Any]:
    """The dashboard."""
    found: dict[str, Any] = json.loads((deploy / "monitoring/grafana-dashboard.json").read_text())
    return found


def recorded(rules: Document) -> dict[str, Named]:
    """What recording rules make, by name."""
    return {
        rule["record"]: named(rule["expr"]) for group in rules["groups"] for rule in group["rules"] if "record" in rule
    }


def unknown(
    expression: str, exported: dict[str, tuple[str, frozenset[str]]], records: dict[str, Named]
) -> Iterator[str]:
    """Names in an expression that nobody exports."""
    kinds = {name: kind for name, (kind, _) in exported.items()}
    found = named(expression)
    available = set(SCRAPED)
    for use in found.uses:
        if use.metric in OF_PROMETHEUS:
            labels = SCRAPED
        elif use.metric in records:
            labels = records[use.metric].grouping
        elif (family := metric_of(use.metric, kinds)) is not None:
            labels = exported[family][1] | SCRAPED
        else:
            yield f"{use.metric}: no such metric"
            continue
        available |= labels
        yield from (f"{use.metric}: no label {label}" for label in use.labels - labels)
    yield from (f"{label}: no metric of the expression has such a label" for label in found.grouping - available)


def panels(dashboard: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Title, expression and legend of each query."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]


def test_rules_name_what_is_exported(rules: Document, exported: dict[str, tuple[str, frozenset[str]]]) -> None:
    """Metrics, labels of selectors, labels of groupings."""
    records = recorded(rules)

    for name, expression in expressions_of(rules):
        assert list(unknown(expression, exported, records)) == [], name


def test_the_dashboard_names_what_is_exported(
    dashboard: dict[str, Any], exported: dict[str, tuple[str, frozenset[str]]]
) -> None:
    """Queries of panels, and those of variables."""
    for title, expression, _ in panels(dashboard):
        assert list(unknown(expression, exported, {})) == [], title
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.findall(r"label_values\((\w+), (\w+)\)", variable["definition"])[0]
            assert label in exported[metric][1] | SCRAPED


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("interpose_nonsense", "interpose_nonsense: no such metric"),
        ('interpose_backend_up{pod="x"}', "interpose_backend_up: no label pod"),
        ("sum by (pod) (interpose_backend_up)", "pod: no metric of the expression has such a label"),
        ("interpose_loop_lag_seconds", "interpose_loop_lag_seconds: no such metric"),
    ],
)
def test_a_wrong_name_would_be_found(
    expression: str, problem: str, exported: dict[str, tuple[str, frozenset[str]]]
) -> None:
    """The check itself can fail."""
    assert problem in list(unknown(expression, exported, {}))


def test_legends_and_texts_use_labels_that_are_left(
    dashboard: dict[str, Any], rules: Document, exported: dict[str, tuple[str, frozenset[str]]]
) -> None:
    """After a sum only the labels that it groups by are there."""
    for title, expression, legend in panels(dashboard):
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= named(expression).grouping, title
    for group in rules["groups"]:
        for rule in group["rules"]:
            shown = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule.get("annotations", {}))))
            available = set(SCRAPED)
            for use in named(rule["expr"]).uses:
                available |= exported.get(use.metric, ("", frozenset()))[1]
            assert shown <= available, rule.get("alert")


def test_every_alert_helps_whoever_gets_it(rules: Document) -> None:
    """How bad it is, what it is, and what to do; each name once."""
    alerts = [rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule]
    names = [rule["alert"] for rule in alerts]

    assert len(names) == len(set(names)) > 20
    for rule in alerts:
        assert rule["labels"]["severity"] in SEVERITIES, rule["alert"]
        assert rule["annotations"].keys() == {"summary", "description"}
        assert len(rule["annotations"]["description"]) > 40, rule["alert"]
        assert re.fullmatch(r"\d+[mh]", rule.get("for", "0m"))


def test_records_are_named_by_what_they_are(rules: Document) -> None:
    """Level, metric and operation, as Prometheus' own advice has it."""
    assert recorded(rules)
    for name in recorded(rules):
        assert re.fullmatch(r"interpose:\w+:\w+5m", name)


def test_the_dashboard_is_in_order(dashboard: dict[str, Any]) -> None:
    """Ids are unique, panels do not overlap, every query goes to the chosen source, rows have panels."""
    ids = [panel["id"] for panel in dashboard["panels"]]
    cells: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        covered = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & covered, panel["title"]
        assert place["x"] + place["w"] <= 24
        cells |= covered
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"
    rows = [panel["title"] for panel in dashboard["panels"] if panel["type"] == "row"]

    assert len(ids) == len(set(ids))
    assert rows == [
        "At a glance",
        "Calls",
        "Latency",
        "Hooks",
        "Policy",
        "Agent and configuration",
        "Webhook",
        "Processes",
    ]


def test_every_panel_explains_itself(dashboard: dict[str, Any]) -> None:
    """What is shown and what it means; one name each, and a name for each line of several."""
    shown = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    titles = [panel["title"] for panel in shown]

    assert len(set(titles)) == len(titles) > 30
    for panel in shown:
        assert len(panel["description"]) > 15, panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        legends = [target["legendFormat"] for target in panel["targets"]]
        assert all(legends), panel["title"]
        assert len(set(legends)) == len(legends), panel["title"]


# Units by what the outermost function of a query gives.
UNITS = {"rate": {"reqps", "cps", "Bps", "percentunit"}, "histogram_quantile": {"s"}, "": {"short", "s", "bytes"}}


def measure(expression: str) -> str:
    """The function that decides about the unit."""
    return next((name for name in ("histogram_quantile", "rate") if f"{name}(" in expression), "")


def test_units_are_those_of_the_queries(dashboard: dict[str, Any]) -> None:
    """What is per second says so, times are seconds, and no panel has both on one axis."""
    for panel in dashboard["panels"]:
        if panel["type"] in ("timeseries", "stat"):
            [kind] = {measure(target["expr"]) for target in panel["targets"]}
            assert panel["fieldConfig"]["defaults"]["unit"] in UNITS[kind], panel["title"]
        elif panel["type"] == "heatmap":
            assert panel["options"]["yAxis"]["unit"] == "s"
            assert panel["targets"][0]["format"] == "heatmap"


def test_no_panel_has_a_line_per_node_of_a_large_cluster(dashboard: dict[str, Any]) -> None:
    """Of what is shown by node, the ten that matter."""
    for title, expression, _ in panels(dashboard):
        if "node" in named(expression).grouping:
            assert expression.startswith("topk(10, "), title


def test_the_dashboard_opens_with_something_to_see(dashboard: dict[str, Any]) -> None:
    """The last hour of all nodes, by itself up to date."""
    variables = {one["name"]: one for one in dashboard["templating"]["list"]}

    assert (dashboard["time"], dashboard["refresh"]) == ({"from": "now-1h", "to": "now"}, "30s")
    assert list(variables) == ["datasource", "node", "method"]
    for name in ("node", "method"):
        assert variables[name]["current"]["value"] == "$__all"
        assert any(f"${name}" in expression for _, expression, _ in panels(dashboard))


def test_jobs_are_those_that_are_scraped(rules: Document, deploy: Path) -> None:
    """Alerts select jobs by the names that prometheus-scrape.yaml and the chart give them."""
    [scrape] = read_documents(deploy / "monitoring/prometheus-scrape.yaml")
    jobs = set(re.findall(r'job="([\w-]+)"', json.dumps([expr for _, expr in expressions_of(rules)]).replace("\\", "")))

    assert jobs == {f"interpose-{name}" for name in ("relay", "runtime", "hookserver", "agent", "webhook")}
    assert [one["job_name"] for one in scrape["scrape_configs"][:2]] == ["interpose-relay", "interpose-runtime"]
    assert "interpose-$1" in json.dumps(scrape["scrape_configs"][2])
