"""A model file alone, as a pair of scripts: each builds the model and takes a few steps of gradient descent with it.

So a model is judged by the ladder that judges scripts. Step 1 runs in eval mode, 2 and 3 in train mode, 4 in eval mode
again with the buffers that training left. The loss is the mean squared distance of every output to a stand-in.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from migrate import manifest as manifests
from migrate import rewriting
from migrate.diagnostics import Fatal
from migrate.files.imports import library_of
from migrate.files.source import write_whole
from parity import inputs as model_inputs
from parity import workdir
from parity.codes import ParityError
from parity.compare import compare_script
from parity.drive import MODES, Subject
from parity.result import ParityResult


def split(place: str, what: str) -> tuple[Path, str]:
    """ "nets/vit.py:ViT" as file and class."""
    file, _, name = place.rpartition(":")
    if not file or not name.isidentifier():
        raise ParityError("PAR211", f"{what} {place}: name a file and a class, as in models.py:Net")
    if not Path(file).is_file():
        raise ParityError("PAR211", f"{file}: no such file")
    return Path(file), name


def compare_model(
    model: str,
    jax: str | None = None,
    *,
    weights: Path | None = None,
    manifest: Path | None = None,
    arguments: str = "",
    inputs: str = "",
    recipe: Path | None = None,
    seed: int = 0,
    **options: object,
) -> ParityResult:
    """Compare a torch model with a Flax model, or with what the rewriter makes of it. Never raises for bad input."""
    try:
        with tempfile.TemporaryDirectory(prefix="parity-") as folder:
            subject = Subject(
                "", "", arguments, inputs, _absolute(recipe, "recipe"), _absolute(weights, "weights"), seed
            )
            return _compare(model, jax, manifest, subject, Path(folder), options)
    except ParityError as error:
        shown = jax or "its rewrite"
        return ParityResult(model, shown, False, error.exit_code, code=error.code, errors=(str(error),))


def _absolute(path: Path | None, what: str) -> str | None:
    if path is not None and not path.is_file():
        raise ParityError("PAR211", f"{path}: no such {what}")
    return str(path.resolve()) if path else None


def _compare(
    model: str, jax: str | None, manifest: Path | None, subject: Subject, base: Path, options: dict[str, object]
) -> ParityResult:
    theirs, class_name = split(model, "--model")
    if not subject.inputs and subject.recipe is None:
        raise ParityError("PAR211", "say what the model is fed: --inputs 'float32[2, 3, 32, 32]', or --recipe FILE.py")
    model_inputs.parse(subject.inputs)
    torch_folder, jax_folder = base / "torch", base / "jax"
    place = theirs.name  # in the project that the file belongs to
    if jax is None:
        ours, jax_class = rewritten_model(theirs, jax_folder), class_name
        place = ours if "/" in ours else place
        manifest = manifest or jax_folder / "weights.json"
    else:
        written, jax_class = split(jax, "--jax")
        ours = written.name
        workdir.copy_folder(written.resolve().parent, jax_folder)
        manifest = manifest or written.parent / "weights.json"
    library = library_of(theirs.resolve())
    module = ""
    if library is None:
        workdir.copy_folder(theirs.resolve().parents[place.count("/")], torch_folder)
    else:
        torch_folder.mkdir()
        inside = theirs.resolve().relative_to(library)
        module = ".".join(inside.with_suffix("").parts)
        subject = replace(subject, library="" if _installed(inside, library) else str(library))
    script = _driver(torch_folder, "torch", replace(subject, file=place, model=class_name, module=module))
    rewritten = _driver(jax_folder, "jax", replace(subject, file=ours, model=jax_class))
    chosen = base / "weights.json"
    _choose(manifest, class_name, jax_class, chosen)
    result = compare_script(script, rewritten, chosen, steps=len(MODES), **options)  # type: ignore[arg-type]
    return replace(result, script=model, rewritten=jax or f"{model}, rewritten")


def _installed(file: Path, library: Path) -> bool:
    """Whether a file of a library is the one that is installed here, with what it needs on this machine."""
    spec = importlib.util.find_spec(file.parts[0])
    found = [Path(folder).parent / file for folder in (spec and spec.submodule_search_locations) or ()]
    return any(own.is_file() and own.read_bytes() == (library / file).read_bytes() for own in found)


def rewritten_model(file: Path, folder: Path) -> str:
    """Rewrites a model file, with the files that it imports, into `folder`; its place there. A part of a package stays
    one, since its files import one another by their places in it."""
    try:
        made = rewriting.rewritten([str(file)])
    except Fatal as error:
        raise ParityError("PAR211", str(error.diagnostic)) from None
    if not made.usable:
        raise ParityError("PAR211", str(made.diagnostics[0]))
    manifest = folder / "weights.json"
    if made.alone:
        rewriting.write(made, folder / f"{file.stem}_jax.py", manifest)
        return f"{file.stem}_jax.py"
    if library_of(file.resolve()) is not None:  # it imports from the library as any script would
        rewriting.write(made, folder, manifest)
        return made.script.member.place
    top = made.project.root
    while (top / "__init__.py").is_file():
        top = top.parent
    inside = made.project.root.relative_to(top)
    rewriting.write(made, folder / inside, manifest)
    for package in (folder / inside / "x").relative_to(folder).parents[:-1]:
        (folder / package / "__init__.py").touch()
    return (inside / made.script.member.place).as_posix()


def _choose(manifest: Path, torch_class: str, jax_class: str, target: Path) -> None:
    """The manifest's entry for the model, under the name of the Flax class."""
    try:
        whole = manifests.read(manifest)
    except (manifests.ManifestError, OSError) as error:
        raise ParityError("PAR211", str(error)) from None
    named = [m for name in (torch_class, jax_class) for m in whole.models if m.name == name] or list(whole.models)
    if len({m.name for m in named}) != 1 and not any(m.name in (torch_class, jax_class) for m in named):
        known = ", ".join(m.name for m in whole.models) or "none"
        raise ParityError("PAR205", f"{manifest} does not describe the model {torch_class} (it describes: {known})")
    manifests.write(replace(whole, models=(replace(named[0], name=jax_class),)), target)


def _driver(folder: Path, framework: str, subject: Subject) -> Path:
    config = folder / "parity_subject.json"
    config.write_text(json.dumps(asdict(subject)), encoding="utf-8")
    script = folder / f"parity_{framework}_driver.py"
    write_whole(script, f'from parity import drive_{framework}\n\ndrive_{framework}.drive("parity_subject.json")\n')
    return script
