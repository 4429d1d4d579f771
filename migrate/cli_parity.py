"""The sub-commands that prove: their options; `parity.cli` and `parity.gate_cli` do the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from migrate.cli_usage import fail


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
    mode: Annotated[
        list[str] | None,
        typer.Option(
            "--mode",
            help="Also in this mode: jit, eager, no-excess-precision, tpu, tf32, bfloat16, tf32-eager …; all.",
        ),
    ] = None,
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
    oracle: Annotated[
        str | None,
        typer.Option("--oracle", help="mpmath, or flint (faster, certified); of a script: its first step, too."),
    ] = None,
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

        asked = {"dtype": dtype, "seed": seed, "samples": samples, "oracle": oracle or "mpmath"}
        raise typer.Exit(operations(op or [], asked, report))
    if hazards:
        from parity.cli import known_hazards

        raise typer.Exit(known_hazards(script, report))
    if metric is not None:
        from parity.cli import seeds

        raise typer.Exit(seeds(*metric))
    if mode and not float64:
        fail("--mode holds each mode against the float64 oracle: leave out --no-float64")
    runs = {"timeout": timeout, "perturbed_runs": perturbed_runs, "modes": tuple(mode or ()), "oracle": oracle}
    runs |= {"torch_python": torch_python, "jax_python": jax_python}
    if model is not None:
        from parity.cli import compare_model

        given = (model, jax, weights, manifest, args, inputs, recipe)
        raise typer.Exit(compare_model(*given, report, float64, {**runs, "prelude": prelude}))
    if script is None:
        fail("name the script to compare, or ask for a matmul with --d 4096")
    if not script.is_file():
        fail(f"{script}: no such file")
    from parity.cli import compare

    raise typer.Exit(compare(script, rewritten, manifest, steps, list(context.args), prelude, report, float64, runs))


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
