"""No name is served twice, every entry explains itself, nothing heavy is imported before it is needed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import migrate
from migrate import reference
from migrate.diagnostics import CODES
from migrate.layers.table import FAMILIES as LAYER_FAMILIES
from migrate.layers.table import TABLE
from migrate.optimizers import COMPOSED, LOSSES, OPTIMIZERS, SCHEDULES
from migrate.rules import rule as rule_module
from migrate.rules.catalogue import FAMILIES, RULES
from parity.codes import CODES as PARITY_CODES
from weight_port.codes import CODES as PORT_CODES

PACKAGE = Path(migrate.__file__).parent


def test_no_name_is_in_two_registries() -> None:
    registries = [RULES, TABLE, OPTIMIZERS, SCHEDULES, COMPOSED, LOSSES]
    names = [name for registry in registries for name in registry]
    assert len(names) == len(set(names))


def test_two_rules_for_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"two rules for torch\.exp"):
        rule_module.register(RULES["torch.exp"])


def test_every_file_of_rules_and_layers_is_in_its_catalogue() -> None:
    files = {path.stem for path in (PACKAGE / "rules").glob("[!_]*.py")} - {
        "rule",
        "catalogue",
        "agreement",
        "limits",
        "sizes",
    }
    assert files == {family.__name__.rpartition(".")[2] for family in FAMILIES}
    files = {path.stem for path in (PACKAGE / "layers").glob("[!_]*.py")} - {"layer", "moves", "refused", "table"}
    assert files == {family.__name__.rpartition(".")[2] for family in LAYER_FAMILIES}


@pytest.mark.parametrize("path", sorted((PACKAGE / "rules").glob("*.py")), ids=lambda path: path.stem)
def test_a_family_fits_a_file(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 300


@pytest.mark.parametrize("name", RULES)
def test_a_rule_says_something(name: str) -> None:
    assert reference._summary(RULES[name].doc).endswith((".", ":"))
    assert RULES[name].family in {family.__name__.rpartition(".")[2] for family in FAMILIES}


@pytest.mark.parametrize("name", TABLE)
def test_a_layer_says_something(name: str) -> None:
    assert TABLE[name].note.endswith(".")
    page = reference.layer_page(name)
    assert page is not None and TABLE[name].note in page


@pytest.mark.parametrize("code", [*CODES, *PORT_CODES, *PARITY_CODES])
def test_every_code_is_explained(code: str) -> None:
    text = reference.explanation(code)
    assert text is not None and text.startswith(f"{code}: ") and len(text) > len(code) + 40


def test_every_code_in_the_sources_is_known() -> None:
    sources = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    assert set(re.findall(r"\bMIG\d{3}\b", sources)) == set(CODES)


HEAVY = ("torch", "jax", "flax", "optax", "libcst", "numpy")


@pytest.mark.parametrize("arguments", [["--help"], ["rewrite", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom migrate.cli import main\ntry:\n    main()\nexcept SystemExit as end:\n"
        f"    print([name for name in {HEAVY} if name in sys.modules], end.code)\n"
    )
    run = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[] 0", run.stdout


def test_the_rewriter_imports_neither_torch_nor_jax() -> None:
    program = (
        "import pkgutil, sys, importlib, migrate\n"
        "names = [m.name for m in pkgutil.walk_packages(migrate.__path__, 'migrate.')]\n"
        "names = [n for n in names if not n.startswith('migrate.snippets.') and not n.endswith('__main__')]\n"
        "[importlib.import_module(name) for name in names]\n"
        "print(len(names), [n for n in ('torch', 'jax', 'flax', 'optax') if n in sys.modules])\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    count, _, heavy = run.stdout.strip().partition(" ")
    assert int(count) > 25 and heavy == "[]"
