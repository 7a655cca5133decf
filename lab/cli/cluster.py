"""`lab cluster`: keys, scheduler and workers of a cluster, and the meaning of ``--cluster``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import UserError
from lab.base.terminal import write

if TYPE_CHECKING:
    from lab.runs.services import Services

LOCAL = "local"
"""Every GPU of this machine, by lab's own processes, without an open port."""

commands = typer.Typer(name="cluster", help="Keys, scheduler and workers of a cluster.", no_args_is_help=True)

Keys = Annotated[
    Path | None, typer.Option(help="Folder that `lab cluster keys` made.", show_default="of the configuration")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Accept tcp://, over which anyone can run anything.")]


@contextlib.contextmanager
def surroundings(
    cluster: str | None, keys: Path | None, *, insecure: bool, jobs: int | None
) -> Iterator[tuple[str, Services | None]]:
    """Resolve the cluster options of a command, with the configuration as default.

    Args:
        cluster: The option as given.
        keys: Folder of keys.
        insecure: Accept a connection without TLS.
        jobs: Most CPU jobs at a time.

    Yields:
        The cluster for the record, and the surroundings of a run or a tuning run; None for this machine's.

    Raises:
        UserError: The address or the keys are wrong.
        MissingToolError: The extra is missing.
        ClusterError: The cluster cannot be used.
    """
    from lab.cluster.config import configured

    configuration = configured()
    address = configuration.address if cluster is None else cluster
    if address in {"", LOCAL}:
        if keys is not None or insecure:
            raise UserError(
                "--keys and --insecure require a cluster address",
                code="conflict",
                key="--cluster",
                found=address or "nothing",
            )
        yield address, None
        return
    from lab.cluster.cluster_services import on_cluster
    from lab.cluster.security import way_to

    folder = keys or (Path(configuration.keys) if configuration.keys else None)
    way = way_to(address, folder, insecure=insecure or configuration.insecure)
    with on_cluster(way, jobs=jobs or configuration.jobs) as services:
        yield way.address, services


@commands.command()
def keys(folder: Annotated[Path, typer.Argument(help="A new folder.", show_default=False)]) -> None:
    """Make the certificates that the hosts of a cluster and its clients share."""
    from lab.cluster.security import PORT, check_installed, make_keys

    check_installed("cryptography")
    for file in make_keys(folder):
        write(str(file))
    write(
        f"""Copy the folder to every host of the cluster, and keep {folder}/cluster-key.pem secret: whoever
has it can run anything there. Then:
  on one host:              lab cluster scheduler --keys {folder}
  on each host with GPUs
  or cores to spare:        lab cluster worker tls://SCHEDULER:{PORT} --keys {folder}
  here:                     lab run EXPERIMENT --cluster tls://SCHEDULER:{PORT} --keys {folder}""",
        error=True,
    )


@commands.command()
def scheduler(
    address: Annotated[str, typer.Argument(help="Address to listen on: tls://0.0.0.0:8786.")] = "tls://0.0.0.0:8786",
    keys: Keys = None,
    insecure: Insecure = False,
) -> None:
    """Run Dask's scheduler on this host until Ctrl-C."""
    from lab.cluster.config import configured
    from lab.cluster.node import schedule
    from lab.cluster.security import check_installed, way_to

    check_installed("distributed")
    configuration = configured()
    folder = keys or (Path(configuration.keys) if configuration.keys else None)
    schedule(way_to(address, folder, insecure=insecure), tell=_tell)


@commands.command()
def worker(
    address: Annotated[str, typer.Argument(help="The scheduler: tls://host:8786.", show_default=False)],
    keys: Keys = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=0, help="CPU jobs at a time.", show_default="each core but one per GPU"),
    ] = None,
    gpus: Annotated[bool, typer.Option(help="Offer this host's GPUs.")] = True,
    host: Annotated[str, typer.Option(help="This host's address for the others.", show_default=False)] = "",
    preload: Annotated[list[str] | None, typer.Option(help="Module that workers import first.", hidden=True)] = None,
    insecure: Insecure = False,
) -> None:
    """Offer this host's cores and GPUs to a scheduler until Ctrl-C."""
    from lab.cluster import node
    from lab.cluster.config import configured
    from lab.cluster.security import check_installed, way_to

    check_installed("distributed")
    configuration = configured()
    folder = keys or (Path(configuration.keys) if configuration.keys else None)
    way = way_to(address, folder, insecure=insecure)
    cards = node.cards_here() if gpus else ()
    offered = node.Offer(node.usual_jobs(cards) if jobs is None else jobs, cards, tuple(preload or ()), host)
    node.offer(way, offered, tell=_tell)


def _tell(message: str) -> None:
    write(message, error=True)
