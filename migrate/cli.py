"""The command line. Each sub-command imports what it needs when it runs, so that `--help` answers at once."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from migrate.cli_parity import gate, parity
from migrate.cli_usage import fail
from migrate.cli_weights import inspect_checkpoint, port_weights
from migrate.options import CheckpointFormat, Options

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
        Format | None,
        typer.Option(
            "--format", help="How findings are reported, on standard error (default: text).", show_default=False
        ),
    ] = None,
    select: Annotated[
        list[str] | None, typer.Option("--select", help="Report only these codes, or codes that begin so: MIG3,MIG401.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option("--ignore", help="Do not report these codes.")] = None,
    data_parallel: Annotated[
        bool, typer.Option("--data-parallel", help="Split batches over all devices, even where the script uses one.")
    ] = False,
    checkpoints: Annotated[
        CheckpointFormat,
        typer.Option("--checkpoints", help="What the output saves: files of msgpack, or folders of Orbax."),
    ] = CheckpointFormat.msgpack,
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
        made = rewriting.rewritten(paths, settings.exclude, output, Options(data_parallel, checkpoints))
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
        fail(str(error))
    sys.stderr.write(formatted(report, settings.format, stages))
    if settings.format == "text":
        where = f"; written to {folder}" if folder is not None else ""
        typer.echo(rewriting.summary(made, report, stages) + where, err=True)
        if made.usable and not check and not diff and (hint := rewriting.hint(made)):
            typer.echo(hint, err=True)
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
    from migrate.files.project import python_files
    from migrate.reporting import survey
    from migrate.reporting.formats import formatted
    from migrate.reporting.settings import SettingsError

    try:
        settings, selection = _asked([str(path) for path in paths], select, ignore, format)
    except SettingsError as error:
        fail(str(error))
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        fail(f"{', '.join(missing)}: no such file or folder")
    files = python_files(paths, exclude=settings.exclude)
    if not files:
        fail(f"{', '.join(map(str, paths))}: holds no Python file")
    found = survey.survey(files, jobs).selected(selection)
    if settings.format == "json":
        sys.stdout.write(survey.as_json(found))
    elif settings.format == "text":
        sys.stdout.write(survey.as_text(found, every))
    else:
        sys.stdout.write(formatted(Report.of(found.diagnostics), settings.format))
    raise typer.Exit(int(any(file.needs_a_person for file in found.files)))


def explain(code: Annotated[str, typer.Argument(metavar="CODE", help="A code of a report, such as MIG301.")]) -> None:
    """Explains a code: what it means and what to do."""
    from migrate.reference import explanation

    text = explanation(code.upper())
    if text is None:
        fail(f"{code}: no such code; codes look like MIG301, WPT101, PAR101")
    typer.echo(text)


def rules(
    api: Annotated[str | None, typer.Argument(metavar="[API]", help="A torch name, such as torch.std.")] = None,
) -> None:
    """Prints the rule for a torch API, or lists all of them."""
    from migrate.reference import rule_page, rule_table

    if api is None:
        typer.echo(rule_table())
        return
    page = rule_page(api)
    typer.echo(page) if page else fail(f"{api}: no rule yet; `migrate rules` lists what there is", 1)


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
    typer.echo(page) if page else fail(f"{layer}: not in the layer table; `migrate layers` lists what there is", 1)


app.command("port-weights")(port_weights)
app.command("inspect")(inspect_checkpoint)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": False})(parity)
app.command()(gate)
for _command in (explain, rules, layers):
    app.command()(_command)


def main() -> None:
    """The console script."""
    app()


if __name__ == "__main__":
    main()
