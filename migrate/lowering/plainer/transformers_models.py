"""Models of transformers: what the library puts around a model's own code, taken off.

`PreTrainedModel` keeps the settings, loads and saves; decorators record what layers give and document the arguments;
a registry chooses how attention is computed, of which the file's own function is one; another has the activations by
their names; masks are made for the chosen attention; results are dicts that are tuples and objects as well. The files
are taken as if they did without: the constructor keeps the settings, attention is computed by the function that stands
in the file, where what makes a mask or an activation stands, too, and results are dicts. Weights start as the layers'
own do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange

from migrate.lowering.plainer.copied_input import Placing
from migrate.lowering.plainer.transformers_functions import FUNCTIONS, GENERIC
from migrate.lowering.plainer.without_cache import WithoutCache
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_BASE = "PreTrainedModel"
_REGISTRY = "ALL_ATTENTION_FUNCTIONS"
_DECORATORS = frozenset(
    {"auto_docstring", "can_return_tuple", "merge_with_config_defaults", "capture_outputs", "check_model_inputs"}
    | {"add_start_docstrings", "add_start_docstrings_to_model_forward", "replace_return_docstrings"}
    | {"use_kernel_forward_from_hub", "use_kernelized_func", "use_kernel_func_from_hub", "dynamic_rope_update"}
)
_ROTARY = "dynamic_rope_update"
# Of a class of models: what only the library reads.
_SETTINGS = re.compile(
    r"_\w+|config|config_class|base_model_prefix|main_input_name|input_modalities|is_parallelizable"
    r"|supports_\w+|accepts_loss_kwargs"
)
_METHODS = frozenset(
    {"_init_weights", "prepare_inputs_for_generation", "_reorder_cache", "_prune_heads"}
    | {f"{verb}_{what}_embeddings" for verb in ("get", "set") for what in ("input", "output")}
    | {f"{verb}_{what}" for verb in ("get", "set") for what in ("encoder", "decoder")}
)
# Entries of results; those that the library records by itself, where it is asked to.
_RECORDED = frozenset({"hidden_states", "attentions", "cross_attentions", "past_key_values"})
_ENTRIES = _RECORDED | {"last_hidden_state", "pooler_output", "logits", "loss"}
_NOT_RECORDED = "torch.not_recorded_of_transformers"  # what is found under this name has no counterpart
_LOSSES = {
    "ForImageClassification": "classification_loss",
    "ForSequenceClassification": "classification_loss",
    "ForCausalLM": "causal_lm_loss",
    "LMHeadModel": "causal_lm_loss",
}


def with_plain_transformers(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such models as plain modules."""
    return [_plain(one) if _models(one.source.module) or _REGISTRY in one.source.text else one for one in inputs]


def _plain(one: Input) -> Input:
    source, within = one.source, one.library.partition(".")[0] == "transformers"
    models = _models(source.module)
    uncached = WithoutCache(models, dict(source.positions))
    first = source.module.visit(uncached)
    made = _Plain(first, models, within, uncached.positions)
    module = first.visit(made)
    module = module.visit(_Imports(_read(module) | made.defined, _read(source.module), within, made.positions))
    body = list(module.body)
    at = max((number for number, line in enumerate(body) if suites.is_import(line)), default=-1) + 1
    defined = [line for name in sorted(made.defined) for line in _definition(name)]
    module = module.with_changes(body=[*body[:at], *defined, *body[at:]])
    return replace(one, source=source.with_module(module, made.positions))


@cache
def _definition(name: str) -> list[Statement]:
    first, *rest = cst.parse_module(FUNCTIONS[name].lstrip()).body
    blank = cst.EmptyLine(indent=False)
    return [first.with_changes(leading_lines=[blank] * (2 if isinstance(first, cst.FunctionDef) else 1)), *rest]


_ACTIVATION = re.compile(r"self\.\w+ = ACT2FN\[[\w.]+\]")


class _Plain(Placing):
    """Takes it off. `within`: the file is one of the library's own."""

    def __init__(
        self, module: cst.Module, models: set[str], within: bool, positions: dict[cst.CSTNode, CodeRange]
    ) -> None:
        super().__init__(positions)
        self.within = within
        self.models = models
        self.defined: set[str] = set()
        self.attention: dict[str, Expr] = {}  # names of what computes attention -> the function of the file
        self.inside: list[str] = []
        self.around: list[cst.ClassDef] = []
        names = {one.name.value for one in module.body if isinstance(one, cst.ClassDef)}
        self.rotary = "rope_init_fn = ROPE_INIT_FUNCTIONS[self.rope_type]" in module.code
        self.whole = any(name.endswith("Model") and not name.endswith("PreTrainedModel") for name in names)
        self.embeddings = _embeddings(module)  # classes that inherit from torch's -> whether they have a padding row
        self.results = _results(module, within)  # classes of the library's for what a forward pass gives
        self.given: dict[str, list[str]] = {}  # names that hold one -> its entries, as far as the file tells them
        self.parts = _parts(module, self.results)  # class -> attribute -> the entries of what that part gives

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.inside.append(node.name.value)
        self.around.append(node)

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        made = updated_node.with_changes(decorators=_left(updated_node.decorators))
        self.around.pop()
        if original_node.name.value in self.embeddings:
            self.inside.pop()
            return made.with_changes(bases=[cst.Arg(nodes.expression("nn.Module"))])
        if self.inside.pop() not in self.models:
            return made
        generic = next((name for arg in made.bases if (name := nodes.dotted(arg.value) or "") in GENERIC), "")
        if generic and self.whole:
            return self.written_out(made, generic)
        bases = [arg for arg in made.bases if nodes.dotted(arg.value) != "GenerationMixin"]
        bases[-1] = bases[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        body = [one for one in suites.suite_of(made.body.body) if not _is_of_library(one)]
        if body and body[0] is not made.body.body[0]:
            body[0] = body[0].with_changes(leading_lines=suites.comments(body[0]))
        return made.with_changes(bases=bases, body=suites.block_of(made.body, body or [nodes.statement("pass")]))

    def written_out(self, cls: cst.ClassDef, generic: str) -> cst.ClassDef:
        """A class that the library has one of for all models, with what that one does."""
        named = [
            s.value
            for s in map(suites.alone, cls.body.body)
            if isinstance(s, cst.Assign) and "base_model_prefix" in nodes.code(s)
        ]
        attribute = str(nodes.literal(named[0])) if named else "model"
        text = (
            GENERIC[generic]
            .replace("BASE", cls.name.value.partition("For")[0] + "Model")
            .replace("ATTRIBUTE", attribute)
        )
        self.defined |= {name for name in FUNCTIONS if f"{name}(" in text}
        body = cst.ensure_type(cst.parse_statement(f"class C:\n{text}"), cst.ClassDef).body
        bases = [arg for arg in cls.bases if nodes.dotted(arg.value) != generic]
        bases[-1] = bases[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return cls.with_changes(bases=bases, body=body)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.attention = {}
        parts = self.parts.get(self.inside[-1], {}) if self.inside else {}
        self.given = dict(_given(node, self.results, parts))

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        returns = updated_node.returns
        if returns is not None and self.results & set(re.findall(r"\w+", nodes.code(returns.annotation))):
            updated_node = updated_node.with_changes(returns=None)
        left = _left(updated_node.decorators)
        if not self.rotary:  # its other types are not refused
            left = [one for one in updated_node.decorators if one in left or nodes.dotted(one.decorator) == _ROTARY]
        return updated_node.with_changes(decorators=left)

    def leave_AnnAssign(self, original_node: cst.AnnAssign, updated_node: cst.AnnAssign) -> cst.AnnAssign | cst.Assign:
        if nodes.code(original_node.annotation.annotation) not in self.results or updated_node.value is None:
            return updated_node
        return cst.Assign([nodes.target(updated_node.target)], updated_node.value)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        if _is_transformers(node, self.within) and not isinstance(node.names, cst.ImportStar):
            self.defined |= {alias.evaluated_name for alias in node.names} & FUNCTIONS.keys()
            if "create_sliding_window_causal_mask" in self.defined:
                self.defined.add("create_causal_mask")

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        small = suites.alone(updated_node)
        chosen = _chosen(small)
        if chosen is not None:
            name, function = chosen
            if function is not None:
                self.attention[name] = function
                return cst.RemoveFromParent()
        text = nodes.code(small) if small is not None else ""
        if self.inside and self.inside[-1] in self.embeddings and text.startswith("super().__init__("):
            return self.own_table(original_node, small)
        if re.match(r"rope_init_fn\b.* = self\.compute_default_rope_parameters$", text):
            return cst.RemoveFromParent()
        if self.inside and self.inside[-1] in self.models and text.startswith("self.warn_if_padding_"):
            return cst.RemoveFromParent()
        if self.inside and self.inside[-1] in self.models and text == "self.post_init()":
            return self.tied(original_node)
        if self.inside and self.inside[-1] in self.models and re.match(r"super\(.*\)\.__init__\(config\b.*\)$", text):
            kept = nodes.statement("self.config = config")
            bare = nodes.statement("super().__init__()").with_changes(leading_lines=updated_node.leading_lines)
            for one in (bare, kept):
                self.place(one, original_node)
            return cst.FlattenSentinel([bare, kept])
        if self.inside and self.inside[-1] in self.models and text == "self.config = config":
            return cst.RemoveFromParent()
        return updated_node

    def own_table(self, original: cst.SimpleStatementLine, small: cst.BaseSmallStatement | None) -> Any:
        """What stands for the constructor of `nn.Embedding` in a class that inherits from it: the table itself."""
        call = small.value if isinstance(small, cst.Expr) else None
        given = [arg.value for arg in call.args] if isinstance(call, cst.Call) else []
        made = [
            nodes.statement("super().__init__()"),
            nodes.statement("self.weight = nn.Parameter(torch.randn({n}, {width}))", n=given[0], width=given[1]),
        ]
        made += [nodes.statement("self.padding_idx = {p}", p=given[2])] if len(given) > 2 else []
        for one in made:
            self.place(one, original)
        return cst.FlattenSentinel(made)

    def tied(self, original: cst.SimpleStatementLine) -> Any:
        """What stands for `self.post_init()`, where the settings say that weights are shared: the head takes that of an
        embedding; of others there is an error."""
        ties = _ties(self.around[-1])
        if ties is None:
            return original
        if not ties:
            return cst.RemoveFromParent()
        told = ", ".join(f"{one} is {other}" for one, other in ties.items())
        lines = [f'raise ValueError("tie_word_embeddings is not converted: {told}")']
        if not _changes_settings(self.around[-1]) and all(_is_of_head(*pair) for pair in ties.items()):
            lines = [f"self.{one} = self.{other}" for one, other in ties.items()]
        (made,) = nodes.statements("\n    ".join(["if config.tie_word_embeddings:", *lines]))
        self.place(made, original)
        return made

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> Any:
        body = suites.suite_of(original_node.body.body)
        only = suites.alone(body[0]) if len(body) == 1 else None
        text = nodes.code(only) if only is not None else ""
        if _chosen(only) is not None and original_node.orelse is None:
            return cst.RemoveFromParent()
        if text.startswith("rope_init_fn = ROPE_INIT_FUNCTIONS["):
            told = nodes.statement('raise ValueError(f"rope_type={self.rope_type} is not converted")')
            self.place(told, body[0])
            return updated_node.with_changes(body=suites.block_of(updated_node.body, [told]))
        if nodes.code(original_node.test).startswith("isinstance(") and re.fullmatch(_ACTIVATION, text):
            return cst.FlattenSentinel(suites.suite_of(updated_node.body.body))
        written = nodes.code(original_node)
        if nodes.code(original_node.test) == "labels is not None" and "config.problem_type" in written:
            self.defined.add("classification_loss")
            given = "pooled_logits" if "pooled_logits" in written else "logits"
            loss = nodes.statement(f"loss = classification_loss(labels, {given}, self.config)")
            self.place(loss, original_node)
            return updated_node.with_changes(body=suites.block_of(updated_node.body, [loss]))
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        name = nodes.dotted(original_node.func) or ""
        if name in self.results and original_node.args and all(arg.keyword is not None for arg in original_node.args):
            given = {arg.keyword.value: arg.value for arg in updated_node.args if arg.keyword is not None}
            return nodes.dict_of([(key, value) for key, value in given.items() if not self.is_recorded(key, value)])
        if name == "self.loss_function" and self.inside:
            loss = next((made for suffix, made in _LOSSES.items() if self.inside[-1].endswith(suffix)), "")
            self.defined |= {loss} - {""}
            return updated_node.with_changes(func=nodes.name(loss)) if loss else updated_node
        if name == "apply_chunking_to_forward" and len(original_node.args) > 3:
            return cst.Call(updated_node.args[0].value, updated_node.args[3:])  # the same, computed at once
        if name == "get_activation" and len(original_node.args) == 1:
            self.defined.add("ACT2FN")
            return nodes.expression("ACT2FN[{x}]", x=updated_node.args[0].value)
        looks_up = nodes.code(original_node.func) == "super().forward" and self.inside
        if looks_up and self.inside[-1] in self.embeddings:
            padding = [cst.Arg(nodes.expression("self.padding_idx"))] if self.embeddings[self.inside[-1]] else []
            weight = cst.Arg(nodes.expression("self.weight"))
            return cst.Call(nodes.expression("nn.functional.embedding"), [*updated_node.args, weight, *padding])
        if name == "rope_init_fn":
            return updated_node.with_changes(func=nodes.expression("self.compute_default_rope_parameters"))
        function = self.attention.get(name)
        return updated_node if function is None else updated_node.with_changes(func=function)

    @staticmethod
    def is_recorded(key: str, value: Expr) -> bool:
        """Whether an entry of a result is what the library records of a part: `hidden_states=outputs.hidden_states`."""
        of_part = isinstance(value, cst.Attribute) and value.attr.value == key
        return key == "past_key_values" or (key in _RECORDED and of_part)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        name = original_node.value.value if isinstance(original_node.value, cst.Name) else ""
        if name not in self.given or original_node.attr.value not in _ENTRIES:
            return updated_node
        if original_node.attr.value in _RECORDED and original_node.attr.value not in self.given[name]:
            return nodes.expression(f"{_NOT_RECORDED}.{original_node.attr.value}")
        return nodes.expression(f'{name}["{original_node.attr.value}"]')

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> Expr:
        name = original_node.value.value if isinstance(original_node.value, cst.Name) else ""
        index = original_node.slice[0].slice if len(original_node.slice) == 1 else None
        number = nodes.literal(index.value) if isinstance(index, cst.Index) else None
        entries = self.given.get(name, [])
        if name not in self.given or isinstance(number, str):
            return updated_node
        until = nodes.literal(index.upper) if isinstance(index, cst.Slice) and index.lower is None else None
        if isinstance(until, int) and 0 < until <= len(entries):
            return nodes.tuple_of([nodes.expression(f'{name}["{entry}"]') for entry in entries[:until]])
        if not isinstance(number, int) or not 0 <= number < len(entries):
            return nodes.expression(f"{_NOT_RECORDED}.element")
        return nodes.expression(f'{name}["{entries[number]}"]')


class _Imports(Placing):
    """Leaves out what is imported of the library and read no more, or stands in the file now."""

    def __init__(self, read: set[str], before: set[str], within: bool, positions: dict[cst.CSTNode, CodeRange]) -> None:
        super().__init__(positions)
        self.gone, self.within = before - read, within

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> Any:
        if isinstance(updated_node.names, cst.ImportStar) or not _is_transformers(original_node, self.within):
            return updated_node
        gone = [a for a in updated_node.names if a.evaluated_name in FUNCTIONS or a.evaluated_name in self.gone]
        kept = [alias for alias in updated_node.names if alias not in gone]
        if not gone or not kept:
            return updated_node if kept else cst.RemoveFromParent()
        kept[-1] = kept[-1].with_changes(comma=updated_node.names[-1].comma)
        return updated_node.with_changes(names=kept)


def _read(module: cst.Module) -> set[str]:
    """The names that a file reads, but for those that its imports bind."""
    return {one.value for one in every(module, cst.Name, closed=cst.ImportFrom)}


def _models(module: cst.Module) -> set[str]:
    """The classes of a file that inherit from the library's class of models."""
    found = {_BASE}
    for node in module.body:
        if isinstance(node, cst.ClassDef) and any(nodes.dotted(arg.value) in found for arg in node.bases):
            found.add(node.name.value)
    return found - {_BASE}


def _results(module: cst.Module, within: bool) -> set[str]:
    """The classes of results that a file imports, or has itself."""
    lines = [one for one in every(module, cst.ImportFrom) if one.module is not None and _is_transformers(one, within)]
    outputs = [one for one in lines if one.module is not None and nodes.code(one.module).endswith("modeling_outputs")]
    found = {a.evaluated_name for one in outputs if not isinstance(one.names, cst.ImportStar) for a in one.names}
    classes = [one for one in module.body if isinstance(one, cst.ClassDef)]
    return found | {
        one.name.value for one in classes if "ModelOutput" in map(nodes.dotted, (a.value for a in one.bases))
    }


def _embeddings(module: cst.Module) -> dict[str, bool]:
    """The classes of a file that inherit from `nn.Embedding` and give its constructor what it takes by places, with
    whether that is a padding row as well."""
    found: dict[str, bool] = {}
    for node in module.body:
        if isinstance(node, cst.ClassDef) and [nodes.dotted(arg.value) for arg in node.bases] == ["nn.Embedding"]:
            inits = [c for c in every(node, cst.Call) if nodes.code(c.func) == "super().__init__"]
            if len(inits) == 1 and len(inits[0].args) in (2, 3) and all(a.keyword is None for a in inits[0].args):
                found[node.name.value] = len(inits[0].args) == 3
    return found


def _parts(module: cst.Module, results: set[str]) -> dict[str, dict[str, list[str]]]:
    """Of each class of a file, its parts that give results, with the entries of these in their order."""
    classes = {one.name.value: one for one in module.body if isinstance(one, cst.ClassDef)}
    entries: dict[str, list[str]] = {}
    for name, node in classes.items():
        for method in node.body.body:
            if isinstance(method, cst.FunctionDef) and method.name.value == "forward":
                made = [c for c in every(method.body, cst.Call) if nodes.dotted(c.func) in results]
                keys = [arg.keyword.value for arg in made[-1].args if arg.keyword is not None] if made else []
                entries[name] = [key for key in keys if key not in _RECORDED]
    found: dict[str, dict[str, list[str]]] = {}
    for name, node in classes.items():
        for one in every(node, cst.Assign):
            path = (nodes.dotted(one.targets[0].target) or "").split(".")
            made_by = nodes.dotted(one.value.func) if isinstance(one.value, cst.Call) else ""
            if len(path) == 2 and path[0] == "self" and entries.get(made_by or ""):
                found.setdefault(name, {})[path[1]] = entries[made_by or ""]
    return found


def _given(
    function: cst.FunctionDef, results: set[str], parts: Mapping[str, list[str]]
) -> Iterator[tuple[str, list[str]]]:
    """The names of a function that hold results, by their annotations or as what a part gives, and the entries."""
    for one in every(function.body, (cst.AnnAssign, cst.Assign)):
        target = one.target if isinstance(one, cst.AnnAssign) else one.targets[0].target
        path = (nodes.dotted(one.value.func) or "").split(".") if isinstance(one.value, cst.Call) else []
        entries = parts.get(path[1], []) if len(path) == 2 and path[0] == "self" else []
        told = nodes.code(one.annotation.annotation) if isinstance(one, cst.AnnAssign) else ""
        if told in results and not entries:
            entries = ["last_hidden_state"] if told.startswith("BaseModelOutput") else []
        if isinstance(target, cst.Name) and (entries or told in results):
            yield target.value, entries


def _ties(cls: cst.ClassDef) -> dict[str, str] | None:
    """The weights of a class of models that are others': path -> path. None where they are told in another way."""
    for line in cls.body.body:
        small = suites.alone(line)
        if isinstance(small, cst.Assign) and nodes.code(small.targets[0].target) == "_tied_weights_keys":
            told = nodes.literal(small.value)
            return told if isinstance(told, dict) and all(map(_is_path, (*told, *told.values()))) else None
    return {}


def _changes_settings(cls: cst.ClassDef) -> bool:
    """Whether a class of models changes the settings that it is given."""
    targets = (nodes.dotted(one.target) or "" for one in every(cls.body, cst.AssignTarget))
    return any(target.startswith("config.") for target in targets)


def _is_of_head(one: str, other: str) -> bool:
    """Whether a tie gives a layer of the model itself the weight of another layer."""
    return one.count(".") == 1 and one.endswith(".weight") and other.endswith(".weight")


def _is_path(path: object) -> bool:
    return isinstance(path, str) and re.fullmatch(r"[\w.]+", path) is not None


def _left(decorators: Sequence[cst.Decorator]) -> list[cst.Decorator]:
    def name(one: cst.Decorator) -> str:
        node = one.decorator.func if isinstance(one.decorator, cst.Call) else one.decorator
        return nodes.dotted(node) or ""

    return [one for one in decorators if name(one) not in _DECORATORS]


def _is_of_library(statement: Statement) -> bool:
    """Whether a statement of a class of models is a setting that the library reads, or a method that it calls."""
    if isinstance(statement, cst.FunctionDef):
        return statement.name.value in _METHODS
    small = suites.alone(statement)
    target = None
    if isinstance(small, cst.Assign) and len(small.targets) == 1:
        target = small.targets[0].target
    elif isinstance(small, cst.AnnAssign):
        target = small.target
    return isinstance(target, cst.Name) and bool(_SETTINGS.fullmatch(target.value))


def _is_transformers(node: cst.ImportFrom, within: bool) -> bool:
    """Whether an import takes from the library, in a file of which relative ones do."""
    named = node.module is not None and nodes.code(node.module).partition(".")[0] == "transformers"
    return within if node.relative else named


def _chosen(small: cst.BaseSmallStatement | None) -> tuple[str, Expr | None] | None:
    """The name that is given a function of the registry of attentions, and the function of the file beside it, if it
    is named there; None for other statements."""
    value = small.value if isinstance(small, cst.Assign | cst.AnnAssign) else None
    target = small.target if isinstance(small, cst.AnnAssign) else None
    if isinstance(small, cst.Assign) and len(small.targets) == 1:
        target = small.targets[0].target
    if value is None or not isinstance(target, cst.Name):
        return None
    if (
        isinstance(value, cst.Call)
        and nodes.dotted(value.func) == f"{_REGISTRY}.get_interface"
        and len(value.args) == 2
    ):
        return target.value, value.args[1].value
    if isinstance(value, cst.Subscript) and nodes.dotted(value.value) == _REGISTRY:
        return target.value, None
    return None
