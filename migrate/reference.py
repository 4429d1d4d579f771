"""The reference, generated from the registries: what `explain`, `rules` and `layers` print and the docs hold."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import re

from migrate.diagnostics import CODES
from migrate.layers.layer import Layer
from migrate.layers.refused import REFUSED, STRUCTURE
from migrate.layers.table import TABLE
from migrate.optimizers import LOSSES
from migrate.rules import agreement
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Rule


def explanation(code: str) -> str | None:
    """Title, explanation and help of a code of any of the three packages; None where there is none."""
    if code in CODES:
        found = CODES[code]
        return f"{code}: {found.title} ({found.severity})\n\n{found.explanation}\n\nWhat to do: {found.help}."
    package = {"WPT": "weight_port.codes", "PAR": "parity.codes"}.get(code[:3])
    if package is None or importlib.util.find_spec(package.partition(".")[0]) is None:
        return None
    other = importlib.import_module(package).CODES.get(code)
    if other is None:
        return None
    title, text = (other.title, other.explanation) if hasattr(other, "title") else other
    return f"{code}: {title}\n\n{text}"


def rule_page(api: str) -> str | None:
    """The page of one torch API, found also by a short name (`std`, `F.relu`, `nn.functional.relu`)."""
    name = _find(api, RULES)
    if name is None:
        return None
    rule = RULES[name]
    text = f"{', '.join(rule.names)}({_signature(rule)})\n\n{inspect.cleandoc(rule.doc)}"
    found = agreement.of(rule)
    return text if found is None else f"{text}\n\n{found}"


def _signature(rule: Rule) -> str:
    from migrate.syntax.nodes import code

    parts = []
    for parameter in rule.parameters:
        default = f"={code(parameter.default)}" if parameter.default is not None else ""
        parts.append(f"{'*' * parameter.star}{parameter.name}{default}")
    return ", ".join(parts)


def rule_table() -> str:
    """One line for each rule."""
    unique = {id(rule): rule for rule in RULES.values()}.values()
    lines = [f"{', '.join(rule.names):<60} {_summary(rule.doc)}" for rule in sorted(unique, key=lambda r: r.names)]
    return "\n".join(lines)


def _summary(doc: str) -> str:
    return inspect.cleandoc(doc).split("\n\n")[0].replace("\n", " ")


def layer_page(name: str) -> str | None:
    """The page of one layer, found also by a short name (`Conv2d`, `nn.Conv2d`)."""
    found = _find(name, TABLE)
    return None if found is None else _layer(TABLE[found])


def _layer(layer: Layer) -> str:
    lines = [f"{layer.torch}({layer.signature})", "", layer.note, "", f"In Flax: {layer.template}"]
    lines += [f"  if {variant.when}: {variant.template}" for variant in layer.variants]
    if layer.defaults:
        lines.append(f"Initial weights: {layer.defaults}")
    lines.append(f"Channels: {layer.layout.value}")
    if layer.call != "input":
        lines.append(f"Called with ({layer.call}), gives {layer.returns}")
    for weight in layer.weights:
        moves = ", ".join(" ".join(map(str, move.to_json())) for move in weight.moves) or "as it is"
        condition = f", if {weight.when}" if weight.when else ""
        copies = f", i from {weight.first} below {weight.over}" if weight.over else ""
        lines.append(f"  {weight.torch} -> {weight.collection}/{weight.leaf} ({moves}{condition}{copies})")
    for key, reason in layer.unused:
        lines.append(f"  {key}: left out, {reason}")
    for argument, (values, why) in layer.refuses.items():
        allowed = ", ".join("any other" if value is ... else repr(value) for value in values)
        lines.append(f"  {argument}: only {allowed} ({why})")
    return "\n".join(lines)


def layer_table() -> str:
    """One line for each layer."""
    return "\n".join(f"{name:<28} {layer.note}" for name, layer in sorted(TABLE.items()))


def _find(name: str, table: object) -> str | None:
    assert isinstance(table, dict)
    short = name.removeprefix("F.").removeprefix("nn.")
    for candidate in (name, f"torch.{name}", f"torch.nn.{short}", f"torch.nn.functional.{short}", f"Tensor.{short}"):
        if candidate in table:
            return candidate
    close = difflib.get_close_matches(name, list(table), n=1, cutoff=0.95)
    return close[0] if close else None


def pages() -> dict[str, str]:
    """The generated pages of the documentation: path under docs/ -> text."""
    made = {"rules": _rules_page(), "layers": _layers_page(), "codes": _codes_page()}
    return {f"reference/{name}.md": text for name, text in made.items()}


_GENERATED = "<!-- Generated from the registries: MIGRATE_UPDATE_DOCS=1 pytest tests/meta/test_pages.py -->\n"


def _rules_page() -> str:
    unique = {id(rule): rule for rule in RULES.values()}.values()
    parts = [
        f"# Rules\n\n{_GENERATED}\nWhat each torch function and method becomes. Every example is a test: its text,"
    ]
    parts[0] += " its values and its gradients in both frameworks. Methods of the same name are covered too.\n"
    parts.append(_agreement_markdown())
    families = sorted({rule.family for rule in unique})
    for family in families:
        parts.append(f"## {family.replace('_', ' ').capitalize()}\n")
        for rule in sorted((rule for rule in unique if rule.family == family), key=lambda rule: rule.names):
            parts.append(f"### {rule.names[0]}\n\n{_rule_markdown(rule)}")
    return "\n".join(parts)


def _rule_markdown(rule: Rule) -> str:
    names = ", ".join(f"`{name}`" for name in rule.names)
    summary, _, rest = inspect.cleandoc(rule.doc).partition("\n\n")
    examples = [line.strip() for line in rest.splitlines() if line.strip()]
    code = "\n".join(line if line.startswith(">>>") else f"# becomes: {line}" for line in examples)
    block = f"\n```python\n{code}\n```\n" if code else ""
    found = agreement.of(rule)
    shown = f"\n{found}\n" if found is not None else ""
    return f"{names} — `({_signature(rule)})`\n\n{summary}\n{block}{shown}"


def _agreement_markdown() -> str:
    """How far the rules agree with torch: all of them, and Python's operators, which are no rules."""
    total = agreement.total()
    lines = [
        "## Agreement on torch's own samples\n",
        "torch tests its operations on samples of arguments. Each sample is written as a call with tensors that the "
        "source makes, rewritten, and executed in both frameworks: values, gradients, shapes and types have to agree. "
        "Of random draws and of memory that nothing has written to, only shapes and types.\n",
        f"{total} That is {total.agrees / total.samples:.1%}; of those that are not refused, "
        f"{total.agrees / (total.samples - total.refused):.1%}. What is neither, each API gives the reason of.\n",
        "Each sample is measured a second time with nothing shown of its tensors, as they come from elsewhere into a "
        "function. None may differ then in silence either; but those that need the type or the axes of a tensor are "
        "not refused by a code there: JAX raises an error as it traces. Most ask for an axis of a tensor that has "
        "none, which torch accepts; the others for images without a batch, for integers and booleans of what JAX has "
        "of floats or numbers alone, and for masks as indices.\n",
        "| operator | samples | agree | refused by code | error in JAX | differ | to be shown |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in agreement.measured().items():
        if name.startswith("operator "):
            counts = (found.samples, found.agrees, found.refused, found.raises, found.differs, found.unshown)
            lines.append(f"| `{name.removeprefix('operator ')}` | {' | '.join(map(str, counts))} |")
    return "\n".join(lines) + "\n"


def _layers_page() -> str:
    parts = [f"# Layers\n\n{_GENERATED}\nEvery torch layer that is known: what it becomes, and where its weights go.\n"]
    parts.append(f"## All of torch.nn\n\n{_classes()}")
    parts += [f"## {name}\n\n```text\n{_layer(layer)}\n```\n" for name, layer in sorted(TABLE.items())]
    return "\n".join(parts)


def _classes() -> str:
    """Each class of torch.nn and what it becomes, or why it is refused."""
    rows = {name: (_constructor(layer.template), "conformance: " + _checked(layer)) for name, layer in TABLE.items()}
    rows |= {name: (f"`{function.removeprefix('torch.nn.')}`", "loss") for name, function in LOSSES.items()}
    rows |= {name: (what, "structure") for name, what in STRUCTURE.items()}
    rows |= {name: (f"refused (MIG202): {why}", "") for name, why in REFUSED.items()}
    lines = ["| torch.nn | becomes | how it is held |", "| --- | --- | --- |"]
    lines += [f"| {name.removeprefix('torch.nn.')} | {what} | {how} |" for name, (what, how) in sorted(rows.items())]
    return "\n".join(lines) + "\n"


def _constructor(template: str) -> str:
    made = template.partition("(")[2] if template.startswith("partial(") else template
    return f"`{re.split(r'[(,]', made.removeprefix('(lambda x: '))[0]}`" if made else f"`{template}`"


def _checked(layer: Layer) -> str:
    modes = "train and eval" if layer.trains else "eval"
    refused = f"; only some values of {', '.join(layer.refuses)}" if layer.refuses else ""
    return f"{len(layer.samples)} constructors, {modes}{refused}"


def _codes_page() -> str:
    parts = [f"# Codes\n\n{_GENERATED}\nEvery code that a report may carry. `migrate explain CODE` prints the same.\n"]
    for code in sorted(CODES):
        found = CODES[code]
        what = f"What to do: {found.help}. ({found.severity})"
        parts.append(f"## {code}: {found.title}\n\n{found.explanation}\n\n{what}\n")
    return "\n".join(parts)
