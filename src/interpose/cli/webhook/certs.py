"""`interpose webhook certs`: a self-signed certificate for the webhook, and API servers that trust it."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from interpose.kube.webhook.validity import certificate_name

if TYPE_CHECKING:
    from interpose.kube.client.access import Access
    from interpose.kube.webhook.bootstrap import CertificateRequest, CertificateStore

_DOMAIN = "svc.cluster.local"
_MISSING = "this needs the extra `certs`: pip install 'interpose[certs]'"


@click.command()
@click.option("--service", metavar="NAME", help="Service of the webhook: the certificate is for its DNS names.")
@click.option("--namespace", metavar="NS", help="Namespace of Service and Secret. [default: that of the kubeconfig]")
@click.option("--name", "extra", metavar="NAME", multiple=True, help="A further DNS name or address. May be repeated.")
@click.option("--secret", metavar="NAME", help="Keep key and certificate in this Secret.")
@click.option(
    "--dir", "directory", metavar="DIR", help="Keep them in this directory instead: tls.key, tls.crt, ca.crt."
)
@click.option(
    "--webhook-config",
    metavar="NAME",
    help="MutatingWebhookConfiguration that shall trust it. Authorities it trusts already stay until they expire.",
)
@click.option("--days", type=click.IntRange(1, 3650), default=365, show_default=True, help="How long it is good.")
@click.option(
    "--renew-before",
    type=click.IntRange(0, 3649),
    default=30,
    show_default=True,
    help="Days before its end from which on this command makes a new one.",
)
@click.option("--force", is_flag=True, help="Make a new one in any case, also over one that is not ours.")
@click.option("--dry-run", is_flag=True, help="Change nothing, tell what would be done.")
@click.option("--kubeconfig", metavar="FILE", default="", help="Access to the cluster. [default: as kubectl finds it]")
def certs(
    service: str | None,
    namespace: str | None,
    extra: tuple[str, ...],
    secret: str | None,
    directory: str | None,
    webhook_config: str | None,
    days: int,
    renew_before: int,
    force: bool,
    dry_run: bool,
    kubeconfig: str,
) -> int:
    """Make a certificate for the webhook, and let the API server trust it.

    What is good already stays as it is: run it as often as you like, for example once a month. The webhook reads a new
    certificate by itself.

    \b
    In a cluster:
      interpose webhook certs --service interpose-webhook --namespace interpose-system \\
          --secret interpose-webhook-tls --webhook-config interpose
    On one machine:
      interpose webhook certs --name localhost --name 127.0.0.1 --dir /etc/interpose/webhook
    """
    if bool(secret) == bool(directory):
        raise click.UsageError("say where to keep it: either --secret NAME or --dir DIR")
    if not service and not extra:
        raise click.UsageError("say what it is for: --service NAME, --name NAME or both")
    if renew_before >= days:
        raise click.UsageError(f"--renew-before {renew_before} must be less than --days {days}")
    try:
        from interpose.kube.webhook.bootstrap import CertificateRequest
    except ImportError:
        raise click.ClickException(_MISSING) from None

    access = None
    if secret or webhook_config or (service and not namespace):
        from interpose.kube.client.kubeconfig import find_access

        access = find_access(kubeconfig, os.environ, default_rules=True)
        namespace = namespace or access.namespace
    requested = (*(_service_names(service, namespace or "default") if service else ()), *extra)
    try:
        names = tuple(dict.fromkeys(map(certificate_name, requested)))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    request = CertificateRequest(
        names=names, lifetime=timedelta(days=days), renew_before=timedelta(days=renew_before), force=force
    )
    return asyncio.run(
        _run(
            request,
            access,
            namespace=namespace or "",
            secret=secret,
            directory=directory,
            dry=dry_run,
            configuration=webhook_config or "",
        )
    )


def _service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The DNS names of a Service: the one that API servers use first."""
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}.{_DOMAIN}", f"{service}.{namespace}", service)


async def _run(
    request: "CertificateRequest",
    access: "Access | None",
    *,
    namespace: str,
    secret: str | None,
    directory: str | None,
    configuration: str,
    dry: bool,
) -> int:
    from interpose import __version__
    from interpose.kube.client.api import ApiError
    from interpose.kube.client.client import KubeClient
    from interpose.kube.webhook.bootstrap import Bootstrap, BootstrapError, SecretCertificateStore
    from interpose.kube.webhook.cert_dir import DirectoryCertificateStore
    from interpose.net.http.errors import UnreachableError

    client = KubeClient(access, user_agent=f"interpose-webhook-certs/{__version__}") if access is not None else None
    store: CertificateStore = DirectoryCertificateStore(directory or "")
    if secret and client is not None:
        store = SecretCertificateStore(client, namespace, secret, force=request.force)
    bootstrap = Bootstrap(store, now=lambda: datetime.now(UTC), say=click.echo, dry=dry)
    try:
        await bootstrap.run(request, client, configuration)
    except (ApiError, UnreachableError, BootstrapError) as error:
        raise click.ClickException(str(error)) from None
    finally:
        if client is not None:
            await client.close()
    return 0
