"""Places and objects that the tests of deploy/ share."""

from pathlib import Path

import pytest

from tests.support.helm.chart import Chart, read_chart
from tests.support.kube.deployed import kustomized
from tests.support.kube.plain_documents import Document


@pytest.fixture(scope="session")
def deploy() -> Path:
    """The directory of everything for deployment."""
    return Path(__file__).parents[3] / "deploy"


@pytest.fixture(scope="session")
def chart(deploy: Path) -> Chart:
    """The chart."""
    return read_chart(deploy / "helm/interpose")


@pytest.fixture(scope="session")
def self_signed(deploy: Path) -> list[Document]:
    """Everything with certificates of our own."""
    return kustomized(deploy / "kustomize/overlays/self-signed")
