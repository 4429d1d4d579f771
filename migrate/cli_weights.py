"""The sub-commands on weights: their options; `weight_port.cli` does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from migrate.cli_usage import fail


def port_weights(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="CKPT",
            help="The checkpoint: .pt, .pth, .bin, .ckpt, .safetensors, .npz, an index of shards, or a folder "
            "(Hugging Face layout, torch distributed); with --reverse Flax weights.",
        ),
    ],
    manifest: Annotated[
        Path | None, typer.Option("--manifest", help="The weight manifest that `migrate rewrite` wrote.")
    ] = None,
    family: Annotated[
        str | None,
        typer.Option("--family", help="A published architecture in its place (default: as config.json says)."),
    ] = None,
    layout: Annotated[
        str | None, typer.Option("--layout", help="Another tree for the family: big_vision or maxtext.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Where the weights go: .safetensors, .msgpack, .npz, or a folder for Orbax."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="The model class, where the manifest has several.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Which part of a nested checkpoint holds the state dict.")
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="From Flax back to torch.")] = False,
    dtype: Annotated[str | None, typer.Option("--dtype", help="Store floating point weights in this type.")] = None,
    dtype_rule: Annotated[
        list[str] | None,
        typer.Option("--dtype-rule", metavar="PATTERN=TYPE", help="The type of some outputs ('keep': as it is)."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Every key used and every leaf filled: always so; stated for scripts.")
    ] = True,
    allow_unused: Annotated[
        list[str] | None, typer.Option("--allow-unused", metavar="PATTERN", help="Keys that nothing needs to use.")
    ] = None,
    allow_missing: Annotated[
        list[str] | None, typer.Option("--allow-missing", metavar="PATTERN", help="Leaves that may stay unfilled.")
    ] = None,
    allow_expanded: Annotated[
        bool, typer.Option("--allow-expanded", help="Read tensors that repeat their elements, whatever they claim.")
    ] = False,
    optimizer: Annotated[
        str | None,
        typer.Option(
            "--optimizer",
            metavar="CHAIN",
            help="Port the optimizer's state too: auto, or how the optax chain is constructed.",
        ),
    ] = None,
    param_names: Annotated[
        str | None,
        typer.Option(
            "--param-names",
            metavar="FILE.json",
            help="The names of the parameters as torch's optimizer was given them, or 'model.parameters()'.",
        ),
    ] = None,
    optimizer_from: Annotated[
        Path | None,
        typer.Option(
            "--optimizer-from",
            metavar="CKPT",
            help="The torch file with the optimizer, if another; with --reverse the one whose groups it is to have.",
        ),
    ] = None,
    optimizer_key: Annotated[
        str | None, typer.Option("--optimizer-key", metavar="KEY", help="Which one, where that file holds several.")
    ] = None,
    optimizer_step: Annotated[
        int | None,
        typer.Option("--optimizer-step", metavar="N", help="How many steps it took, where neither side says."),
    ] = None,
    as_saved: Annotated[
        bool,
        typer.Option(
            "--as-saved",
            help="Write the checkpoint that the rewritten script would have saved (.msgpack), and goes on from: "
            "with its optimizer, its schedulers, its epoch.",
        ),
    ] = False,
    shard_size: Annotated[
        str | None, typer.Option("--shard-size", metavar="SIZE", help="Write safetensors of at most 5GB, say, each.")
    ] = None,
    mesh: Annotated[
        Path | None, typer.Option("--mesh", metavar="FILE.json", help="How devices share the leaves (Orbax).")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep what is finished when interrupted, and go on from it (folders).")
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Read both sides again, compare every leaf, print a hash of the content; with "
            "--dry-run that of an output that is there already.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan; write nothing.")] = False,
    init_map: Annotated[
        Path | None,
        typer.Option("--init-map", metavar="FILE.json", help="Draft a manifest from the checkpoint alone, and stop."),
    ] = None,
) -> None:
    """Converts a torch state dict to a Flax pytree, strictly, or back.

    Exit code 0: ported; 1: the checkpoint and the manifest do not fit, nothing written; 2: unreadable input.
    """
    from weight_port.cli import Asked, port

    if output is None and not dry_run and init_map is None:
        fail("name the output with -o FILE (.safetensors, .msgpack, .npz) or -o FOLDER, or ask for --dry-run")
    asked = Asked(
        shard_size, dtype_rule or (), init_map, family, layout, optimizer, optimizer_from, optimizer_key, param_names,
        optimizer_step, as_saved,
    )  # fmt: skip
    raise typer.Exit(port(
        checkpoint, manifest, output, asked, model=model, key=key, reverse=reverse, dtype=dtype,
        allow_unused=allow_unused or (), allow_missing=allow_missing or (), allow_expanded=allow_expanded,
        mesh=mesh, resume=resume, verify=verify, dry_run=dry_run,
    ))  # fmt: skip


def inspect_checkpoint(
    checkpoint: Annotated[Path, typer.Argument(metavar="CKPT", help="A checkpoint of torch or Flax, file or folder.")],
    key: Annotated[str | None, typer.Option("--key", help="Only this part of a nested checkpoint.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Lists what a checkpoint holds (keys, shapes, types, bytes, sharing) without loading it.

    Exit code 0: listed; 2: unreadable input.
    """
    from weight_port.cli import inspect

    raise typer.Exit(inspect(checkpoint, key, as_json))
