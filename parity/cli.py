"""What `migrate parity` does between the command line and the harness."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from migrate import rewriting
from migrate.diagnostics import ExitCode, Fatal, Report
from migrate.files.source import write_whole
from parity import workdir

if TYPE_CHECKING:
    from parity.result import ParityResult


def compare(
    script: Path,
    rewritten: Path | None,
    manifest: Path | None,
    steps: int,
    argv: Sequence[str],
    prelude: Path | None,
    page: Path | None,
    float64: bool = True,
    runs: Mapping[str, Any] | None = None,
) -> int:
    """Compares a script with its rewrite, which is made afresh where none is named; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="migrate-") as folder:
        if rewritten is None:
            try:
                rewritten, manifest, root = rewrite(script, Path(folder), manifest)
            except Fatal as error:
                print(error.diagnostic, file=sys.stderr)
                return int(ExitCode.UNUSABLE)
        else:
            root = workdir.project_root(script, rewritten)
            manifest = manifest or workdir.manifest_of(rewritten, script, root)
        return compared(script, rewritten, manifest, steps, argv, prelude, page, float64, root, runs)


def rewrite(script: Path, folder: Path, manifest: Path | None) -> tuple[Path, Path, Path]:
    """Rewrites `script`, and its project with it, into `folder`: the script there, the manifest, and the top folder of
    the original project. Findings go to standard error."""
    made = rewriting.rewritten([str(script)])
    sys.stderr.write(Report.of(made.diagnostics).as_text())
    if not made.usable:
        raise Fatal(made.diagnostics[0])
    place = Path(made.script.member.place)
    target = folder / (place.with_name(f"{script.stem}_jax{script.suffix}") if made.alone else place)
    rewriting.write(made, target if made.alone else folder, folder / "weights.json")
    return target, manifest or folder / "weights.json", made.project.root


def compared(
    script: Path,
    rewritten: Path,
    manifest: Path | None,
    steps: int,
    argv: Sequence[str],
    prelude: Path | None,
    page: Path | None,
    float64: bool,
    root: Path | None = None,
    runs: Mapping[str, Any] | None = None,
) -> int:
    """`runs`: timeout, interpreters and the like, as `compare_script` takes them."""
    from parity.compare import compare_script

    result = compare_script(
        script,
        rewritten,
        manifest,
        steps=steps,
        argv=argv,
        prelude=prelude,
        float64=float64,
        root=root,
        locate=True,
        **_with_every_mode(runs or {}),
    )
    return shown(result, page)


def _with_every_mode(runs: Mapping[str, Any]) -> dict[str, Any]:
    from parity.modes import ALL

    return {**runs, "modes": ALL} if "all" in runs.get("modes", ()) else dict(runs)


def compare_model(
    model: str,
    jax: str | None,
    weights: Path | None,
    manifest: Path | None,
    arguments: str,
    inputs: str,
    recipe: Path | None,
    page: Path | None,
    float64: bool,
    runs: Mapping[str, Any] | None = None,
) -> int:
    """Compares a model file with its rewrite, or with a Flax model; returns the exit code."""
    from parity import subject

    result = subject.compare_model(
        model,
        jax,
        weights=weights,
        manifest=manifest,
        arguments=arguments,
        inputs=inputs,
        recipe=recipe,
        float64=float64,
        locate=True,
        **_with_every_mode(runs or {}),
    )
    return shown(result, page)


def shown(result: ParityResult, page: Path | None) -> int:
    """Prints a result, writes its page, answers with its exit code."""
    from parity import report
    from parity.modes import with_modes

    console = Console()
    result = with_modes(result)
    report.render(result, console)
    if page is not None:
        if page.suffix == ".json":
            write_whole(page, report.to_json(result))
        else:
            page.parent.mkdir(parents=True, exist_ok=True)
            report.write_html(result, page)
        console.print(f"report: {page}")
    return result.exit_code


def matmul(study: dict[str, object], page: Path | None) -> int:
    """Compares matrix products of both frameworks with a proved reference; returns the exit code."""
    from parity import matmul as products
    from parity import matmul_report
    from parity.codes import ParityError

    console = Console()
    try:
        ds = products.parse_ds(study.pop("ds"))  # type: ignore[arg-type]
        results = products.run(products.Study(ds, **study))  # type: ignore[arg-type]
        for result in results:
            matmul_report.render(result, console)
        if len(results) > 1:
            matmul_report.render_growth(results, console)
        if page is not None:
            matmul_report.save(results, page)
            console.print(f"report: {page}")
    except (ParityError, OSError) as error:
        print(error, file=sys.stderr)
        return int(ExitCode.UNUSABLE)
    proved = all(result.freivalds is not False and result.mpmath_error <= 1 for result in results)
    return int(ExitCode.DONE if proved else ExitCode.FINDINGS)


def operations(names: Sequence[str], asked: dict[str, object], page: Path | None) -> int:
    """Compares single operations (all, where none is named) with the oracle; returns the exit code."""
    from parity.codes import ParityError
    from parity.operations import report, study
    from parity.operations.table import OPERATIONS

    console = Console()
    try:
        results = study.run(list(dict.fromkeys(names)) or list(OPERATIONS), **asked)  # type: ignore[arg-type]
        report.render(results, console)
        if page is not None:
            write_whole(page, report.to_json(results))
            console.print(f"report: {page}")
    except (ParityError, OSError) as error:
        print(error, file=sys.stderr)
        return int(ExitCode.UNUSABLE)
    return int(ExitCode.DONE)


def known_hazards(script: Path | None, page: Path | None) -> int:
    """Tries the hazards here and looks for them in a JAX script, or in the rewrite of a torch script; the exit code is
    1 where the script has one."""
    from parity.codes import ParityError
    from parity.hazards import report

    console = Console()
    try:
        with tempfile.TemporaryDirectory(prefix="migrate-") as folder:
            source = script
            if script is not None and "import jax" not in script.read_text(encoding="utf-8", errors="replace"):
                source = rewrite(script, Path(folder), None)[0]
            hazards, versions = report.found(source)
        report.render(hazards, versions, script and source, console)
        if page is not None:
            write_whole(page, report.to_json(hazards, versions))
            console.print(f"report: {page}")
    except Fatal as error:
        print(error.diagnostic, file=sys.stderr)
        return int(ExitCode.UNUSABLE)
    except (ParityError, OSError) as error:
        print(error, file=sys.stderr)
        return int(ExitCode.UNUSABLE)
    return int(ExitCode.FINDINGS if any(hazard.lines for hazard in hazards) else ExitCode.DONE)


def seeds(first: Path, second: Path) -> int:
    """Whether a metric differs between runs of two frameworks; returns the exit code."""
    from parity import seeds as study
    from parity.codes import ParityError

    try:
        verdict = study.judge(study.read(first), study.read(second))
    except ParityError as error:
        print(error, file=sys.stderr)
        return int(ExitCode.UNUSABLE)
    print("\n".join(study.lines(verdict, (str(first), str(second)))))
    if verdict.differs is None:
        return int(ExitCode.UNUSABLE)
    return int(ExitCode.FINDINGS if verdict.differs else ExitCode.DONE)
