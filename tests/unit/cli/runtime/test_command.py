"""`interpose runtime`: flags as the kubelet calls them."""

import pytest
from click.testing import CliRunner, Result

from interpose.cli.main import cli


def runtime(*flags: str) -> Result:
    """Its settings."""
    return CliRunner().invoke(cli, ["runtime", "--print-config", *flags], standalone_mode=False, env={})


@pytest.mark.parametrize("flag", ["--listen", "--container-runtime-endpoint"])
def test_its_socket_has_two_names(flag: str) -> None:
    """Where it listens is what kubelets call the endpoint of the runtime; images are served there, too."""
    result = runtime(flag, "unix:///run/x.sock", "--image-service-endpoint", "unix:///run/x.sock")
    assert result.return_value == 0
    assert ["listen", "/run/x.sock"] in [line.split()[:2] for line in result.stdout.splitlines()]


def test_images_are_served_on_no_other_socket() -> None:
    """A kubelet would get no answer there."""
    result = runtime("--listen", "/run/x.sock", "--image-service-endpoint", "/run/images.sock")
    assert result.return_value == 78
    assert (
        "flag --image-service-endpoint: '/run/images.sock' is not the socket of --listen, '/run/x.sock'"
        in result.stderr
    )
