"""Objects of deploy/ for tests."""

from pathlib import Path

from tests.support.kube.deployed import containers, kustomized, normal


def test_a_kustomization_gathers_files_and_other_kustomizations(tmp_path: Path) -> None:
    """In the order in which they are named."""
    for name, text in {
        "base/kustomization.yaml": "resources: [a.yaml]\n",
        "base/a.yaml": "kind: A\n---\nkind: B\n",
        "over/kustomization.yaml": "resources: [../base, c.yaml]\n",
        "over/c.yaml": "kind: C\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    assert kustomized(tmp_path / "over") == [{"kind": "A"}, {"kind": "B"}, {"kind": "C"}]


def test_makers_are_left_out() -> None:
    """Wherever they signed."""
    labels = {"a": "b", "helm.sh/chart": "c", "app.kubernetes.io/version": "1"}

    assert normal({"x": [{"labels": labels}], "n": None}) == {"x": [{"labels": {"a": "b"}}]}


def test_containers_come_with_their_pods() -> None:
    """Objects without pods have none."""
    spec = {"containers": [{"name": "c"}]}
    job = {"kind": "Job", "spec": {"template": {"spec": spec}}}

    assert list(containers([job, {"kind": "Service"}])) == [("Job/c", {"name": "c"}, spec)]
