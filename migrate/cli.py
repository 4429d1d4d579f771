"""The command line. Each sub-command imports what it needs when it runs, so that `--help` answers at once."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from migrate.reporting.selection import Selection
    from migrate.reporting.settings import Settings

app = typer.Typer(
    name="migrate",
    help="Takes PyTorch training scripts to JAX: rewrites them, ports their weights, proves that nothing was lost.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class Format(StrEnum):
    """How a report is written."""

    text = "text"
    json = "json"
    sarif = "sarif"
    github = "github"


def _version(value: bool) -> None:
    if value:
        from migrate import __version__

        typer.echo(f"migrate {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _fail(message: str, code: int = 2) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(code)


@app.command()
def rewrite(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...", help="A PyTorch script or notebook, several, a folder, or - (standard input)."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Where it goes: a file for a script alone (default: SCRIPT_jax.py; - prints it), "
            "a folder for a project (default: SCRIPT_jax/).",
        ),
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option("--manifest", help="Where the weight manifest goes (default: weights.json beside the output)."),
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Print a diff; write nothing.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 where something would need a person.")
    ] = False,
    format: Annotated[
        Format | None, typer.Option("--format", help="How findings are reported (default: text).", show_default=False)
    ] = None,
    select: Annotated[
        list[str] | None, typer.Option("--select", help="Report only these codes, or codes that begin so: MIG3,MIG401.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option("--ignore", help="Do not report these codes.")] = None,
    data_parallel: Annotated[
        bool, typer.Option("--data-parallel", help="Split batches over all devices, even where the script uses one.")
    ] = False,
    page: Annotated[
        Path | None, typer.Option("--page", help="Write a page (.html): before and after, with the findings in place.")
    ] = None,
    verified: Annotated[
        Path | None,
        typer.Option("--verified", metavar="FILE.json", help="What `migrate parity --report FILE.json` has verified."),
    ] = None,
) -> None:
    """Rewrites PyTorch code to Flax and optax: a script with the files of its project that it imports, or folders.

    Inputs are never changed. Exit code 0: rewritten whole; 1: rewritten, with places that need a person; 2: not
    rewritten.
    """
    from migrate import rewriting
    from migrate.diagnostics import Fatal
    from migrate.reporting.formats import formatted
    from migrate.reporting.settings import SettingsError

    try:
        settings, selection = _asked(paths, select, ignore, format)
        made = rewriting.rewritten(paths, settings.exclude, output, data_parallel)
        report = selection.report(made.diagnostics)
        stages = rewriting.stages(made, report, verified)
        folder = None
        if diff:
            sys.stdout.write(rewriting.diff(made))
        elif made.usable and not check:
            folder = rewriting.write(made, output, manifest)
        if page is not None:
            from migrate.reporting.page import write_page

            write_page(page, made, report, stages)
    except Fatal as error:
        sys.stderr.write(formatted(rewriting.fatal_only(error), format or "text"))
        raise typer.Exit(2) from None
    except (rewriting.UsageError, SettingsError) as error:
        _fail(str(error))
    sys.stderr.write(formatted(report, settings.format, stages))
    if settings.format == "text":
        where = f"; written to {folder}" if folder is not None else ""
        typer.echo(rewriting.summary(made, report, stages) + where, err=True)
    raise typer.Exit(int(made.exit_code(report)))


def _asked(
    paths: list[str], select: list[str] | None, ignore: list[str] | None, format: Format | None
) -> tuple[Settings, Selection]:
    """The settings of the project that the first path is in, with what the command line says."""
    from migrate.reporting.selection import Selection
    from migrate.reporting.settings import SettingsError, read_settings

    settings = read_settings(Path(".") if paths[0] == "-" else Path(paths[0]))
    settings = settings.with_options(select or (), ignore or (), format)
    try:
        return settings, Selection.of(settings)
    except ValueError as error:
        raise SettingsError(str(error)) from None


@app.command()
def report(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    format: Annotated[
        Format | None, typer.Option("--format", help="How it is written (default: text).", show_default=False)
    ] = None,
    select: Annotated[
        list[str] | None, typer.Option("--select", help="Only these codes, or codes that begin so: MIG3,MIG401.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option("--ignore", help="Without these codes.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Also print each finding at its place.")] = False,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", min=1, help="How many processes (default: one for each core).")
    ] = None,
) -> None:
    """Says what a conversion of a whole repository would find, by code and by file, and what work it would leave.

    Nothing is written. Exit code 0: no place needs a person; 1: some do; 2: there is nothing to analyse.
    """
    from migrate.diagnostics import Report
    from migrate.project import python_files
    from migrate.reporting import survey
    from migrate.reporting.formats import formatted
    from migrate.reporting.settings import SettingsError

    try:
        settings, selection = _asked([str(path) for path in paths], select, ignore, format)
    except SettingsError as error:
        _fail(str(error))
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        _fail(f"{', '.join(missing)}: no such file or folder")
    files = python_files(paths, exclude=settings.exclude)
    if not files:
        _fail(f"{', '.join(map(str, paths))}: holds no Python file")
    found = survey.survey(files, jobs).selected(selection)
    if settings.format == "json":
        sys.stdout.write(survey.as_json(found))
    elif settings.format == "text":
        sys.stdout.write(survey.as_text(found, every))
    else:
        sys.stdout.write(formatted(Report.of(found.diagnostics), settings.format))
    raise typer.Exit(int(any(file.needs_a_person for file in found.files)))


@app.command("port-weights")
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
        _fail("name the output with -o FILE (.safetensors, .msgpack, .npz) or -o FOLDER, or ask for --dry-run")
    asked = Asked(shard_size, dtype_rule or (), init_map, family, layout)
    raise typer.Exit(port(
        checkpoint, manifest, output, asked, model=model, key=key, reverse=reverse, dtype=dtype,
        allow_unused=allow_unused or (), allow_missing=allow_missing or (), mesh=mesh, resume=resume,
        verify=verify, dry_run=dry_run,
    ))  # fmt: skip


@app.command("inspect")
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


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": False})
def parity(
    context: typer.Context,
    script: Annotated[
        Path | None, typer.Argument(metavar="[SCRIPT.py]", help="The PyTorch script to compare with its rewrite.")
    ] = None,
    rewritten: Annotated[
        Path | None, typer.Option("--rewritten", help="The rewritten script (default: rewritten afresh).")
    ] = None,
    manifest: Annotated[
        Path | None, typer.Option("--manifest", help="Its weight manifest (default: weights.json beside it).")
    ] = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="How many losses are compared.")] = 20,
    prelude: Annotated[
        Path | None, typer.Option("--prelude", help="Python run in both processes first (stand-ins for data).")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write a page (.html) or the figures (.json).")
    ] = None,
    float64: Annotated[
        bool, typer.Option("--float64/--no-float64", help="Also run both sides in float64: the verdict on semantics.")
    ] = True,
    model: Annotated[
        str | None, typer.Option("--model", metavar="FILE.py:CLASS", help="Compare a torch model by itself.")
    ] = None,
    jax: Annotated[
        str | None, typer.Option("--jax", metavar="FILE.py:CLASS", help="Its Flax model (default: rewritten afresh).")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option("--weights", help="A torch checkpoint for --model (default: initial weights)."),
    ] = None,
    args: Annotated[
        str, typer.Option("--args", help="Arguments of the model's constructor, as in: '3, hidden=64'.")
    ] = "",
    inputs: Annotated[
        str, typer.Option("--inputs", help="What the model is fed, as in: 'float32[2, 3, 32, 32], ids=int64[2] < 10'.")
    ] = "",
    recipe: Annotated[
        Path | None,
        typer.Option("--recipe", help="Python with inputs(random), arguments(), torch_model(cls), jax_model(cls)."),
    ] = None,
    perturbed_runs: Annotated[
        int, typer.Option("--perturbed-runs", min=0, help="Torch runs that measure its own spread; 5 judge curves too.")
    ] = 3,
    timeout: Annotated[float, typer.Option("--timeout", min=1, help="Seconds for each run.")] = 3600.0,
    torch_python: Annotated[
        str | None, typer.Option("--torch-python", help="The interpreter of the torch side (default: this one).")
    ] = None,
    jax_python: Annotated[
        str | None, typer.Option("--jax-python", help="The interpreter of the JAX side (default: this one).")
    ] = None,
    d: Annotated[
        list[str] | None,
        typer.Option("--d", help="Compare d x d matrix products with a proved reference: 64, 64,256 or 64..4096."),
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="The inner size of those products.")] = 4,
    dtype: Annotated[str, typer.Option("--dtype", help="Their type: float32, bfloat16, float16.")] = "float32",
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of what is drawn.")] = 0,
    dist: Annotated[
        str, typer.Option("--dist", help="How they are drawn: normal, uniform, positive, lognormal.")
    ] = "normal",
    precision: Annotated[
        str | None,
        typer.Option("--precision", help="Their precision=: default, high or highest."),
    ] = None,
    emulate: Annotated[
        list[str] | None, typer.Option("--emulate", help="Also what an accelerator would compute: tpu, tf32.")
    ] = None,
    op: Annotated[
        list[str] | None, typer.Option("--op", help="Compare a single operation with the oracle: gelu, softmax, …")
    ] = None,
    all_ops: Annotated[bool, typer.Option("--all-ops", help="All of them.")] = False,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Of elementwise operations.")] = 4096,
    oracle: Annotated[str, typer.Option("--oracle", help="mpmath, or flint (faster, certified).")] = "mpmath",
    hazards: Annotated[
        bool,
        typer.Option("--hazards", help="Known hazards: which show here, and which the script's JAX program has."),
    ] = False,
    metric: Annotated[
        tuple[Path, Path] | None,
        typer.Option("--metric", metavar="A.json B.json", help="Do metrics over seeds differ beyond seeds?"),
    ] = None,
    reference: Annotated[
        str, typer.Option("--reference", help="proved (fast), or mpmath for every entry (slow).")
    ] = "proved",
) -> None:
    """Runs a script and its rewrite from the same weights on the same data, and compares them step by step.

    Arguments of the script follow `--`. Exit code 0: equal within the stated tolerance; 1: not; 2: could not run.
    """
    if d:
        from parity.cli import matmul

        study = {"ds": d, "k": k, "dtype": dtype, "seed": seed, "dist": dist, "precision": precision}
        raise typer.Exit(matmul({**study, "emulations": tuple(emulate or ()), "reference": reference}, report))
    if op or all_ops:
        from parity.cli import operations

        asked = {"dtype": dtype, "seed": seed, "samples": samples, "oracle": oracle}
        raise typer.Exit(operations(op or [], asked, report))
    if hazards:
        from parity.cli import known_hazards

        raise typer.Exit(known_hazards(script, report))
    if metric is not None:
        from parity.cli import seeds

        raise typer.Exit(seeds(*metric))
    interpreters = {"torch_python": torch_python, "jax_python": jax_python}
    runs = {"timeout": timeout, "perturbed_runs": perturbed_runs, **interpreters}
    if model is not None:
        from parity.cli import compare_model

        raise typer.Exit(compare_model(model, jax, weights, manifest, args, inputs, recipe, report, float64, runs))
    if script is None:
        _fail("name the script to compare, or ask for a matmul with --d 4096")
    if not script.is_file():
        _fail(f"{script}: no such file")
    if script.suffix == ".ipynb":
        _fail(f"{script}: is a notebook, and scripts are compared: `jupyter nbconvert --to script` makes one of it")
    from parity.cli import compare

    raise typer.Exit(compare(script, rewritten, manifest, steps, list(context.args), prelude, report, float64, runs))


@app.command()
def gate(
    config: Annotated[
        Path | None,
        typer.Option("--config", help="What is held to what (default: parity.toml, or pyproject.toml)."),
    ] = None,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help="Only these subjects.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="A folder for gate.json, .junit.xml, .sarif, .md and .html.")
    ] = None,
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Write the ratchet's baseline from this run, if it passes.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=1, help="Seconds for each process (default: the file's, or 3600).")
    ] = None,
    self_test: Annotated[
        bool, typer.Option("--self-test", help="Put the gate to the test: seeded mistakes must all be caught.")
    ] = False,
) -> None:
    """Holds ports to their budgets, for continuous integration.

    Exit code 0: all within; 1: a budget is exceeded; 2: something could not be decided, which is never a pass.
    """
    from parity import gate_cli

    if self_test:
        raise typer.Exit(gate_cli.self_test())
    raise typer.Exit(gate_cli.gate(config, only or [], out, update_baseline, timeout))


@app.command()
def explain(code: Annotated[str, typer.Argument(metavar="CODE", help="A code of a report, such as MIG301.")]) -> None:
    """Explains a code: what it means and what to do."""
    from migrate.reference import explanation

    text = explanation(code.upper())
    if text is None:
        _fail(f"{code}: no such code; codes look like MIG301, WPT101, PAR101")
    typer.echo(text)


@app.command()
def rules(
    api: Annotated[str | None, typer.Argument(metavar="[API]", help="A torch name, such as torch.std.")] = None,
) -> None:
    """Prints the rule for a torch API, or lists all of them."""
    from migrate.reference import rule_page, rule_table

    if api is None:
        typer.echo(rule_table())
        return
    page = rule_page(api)
    typer.echo(page) if page else _fail(f"{api}: no rule yet; `migrate rules` lists what there is", 1)


@app.command()
def layers(
    layer: Annotated[
        str | None, typer.Argument(metavar="[LAYER]", help="A torch layer, such as torch.nn.Conv2d.")
    ] = None,
) -> None:
    """Prints the entry of a layer in the layer table, or lists all of them."""
    from migrate.reference import layer_page, layer_table

    if layer is None:
        typer.echo(layer_table())
        return
    page = layer_page(layer)
    typer.echo(page) if page else _fail(f"{layer}: not in the layer table; `migrate layers` lists what there is", 1)


def main() -> None:
    """The console script."""
    app()


if __name__ == "__main__":
    main()
