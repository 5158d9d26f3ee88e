"""`interpose pod`: pods from standard manifests, on any runtime that speaks CRI."""

import click

from interpose.cli.common.lazy import LazyGroup, Subcommand

SUBCOMMANDS = {
    "run": Subcommand("interpose.cli.pod.run", "run", "Bring pods up from manifests, and with --watch keep them."),
    "ls": Subcommand("interpose.cli.pod.ls", "ls", "List the pods that the runtime has."),
    "status": Subcommand("interpose.cli.pod.status", "status", "Show everything about a pod."),
    "events": Subcommand("interpose.cli.pod.events", "events", "Show what happened with pods."),
    "stats": Subcommand("interpose.cli.pod.stats", "stats", "Show what containers use."),
    "logs": Subcommand("interpose.cli.pod.logs", "logs", "Show what a container wrote."),
    "exec": Subcommand("interpose.cli.pod.exec", "exec_command", "Run a command in a container."),
    "attach": Subcommand("interpose.cli.pod.exec", "attach_command", "Connect to a container's own process."),
    "port-forward": Subcommand("interpose.cli.pod.port_forward", "port_forward", "Reach a port of a pod from here."),
    "stop": Subcommand("interpose.cli.pod.stop", "stop", "End pods; what they left stays."),
    "rm": Subcommand("interpose.cli.pod.stop", "rm", "End pods and remove all that is left of them."),
}


@click.group("pod", cls=LazyGroup, table=SUBCOMMANDS)
def pod() -> None:
    """Run pods from standard manifests on any runtime that speaks CRI: containerd, CRI-O, `interpose runtime`, or a
    relay in front of one. No cluster and no daemon is needed.

    \b
      interpose pod run -f web.yaml          bring it up, exit when it is ready
      interpose pod ls
      interpose pod logs -f web
      interpose pod exec -it web -- sh
      interpose pod rm web
    Keep all pods of a folder, as a kubelet does with its static pods:
      interpose pod run -f /etc/interpose/pods --watch

    Pods are called NAME, NAMESPACE/NAME, or by the beginning of their uid.
    """
