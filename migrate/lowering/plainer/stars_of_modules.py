"""Constructors of modules that take `*args, **kwargs` for torch's own: `super().__init__(*args, **kwargs)`.

`nn.Module` takes no arguments, so that nobody gives any. The input is taken as if the constructor had no such stars.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.plainer.project_classes import ProjectClass, classes_of, is_module
from migrate.lowering.rounds import Input
from migrate.syntax import nodes
from migrate.syntax.walking import every


def with_no_stars(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project without such stars."""
    if not any(".__init__(*" in one.source.text for one in inputs):
        return list(inputs)
    classes = classes_of(inputs)
    edits = {one.scope: Edits() for one in inputs}
    for name, cls in classes.items():
        init = cls.methods.get("__init__")
        call = _handed_on(init) if init is not None else None
        if init is not None and call is not None and is_module(name, classes) and _has_torchs(cls, classes):
            plain = init.params.with_changes(star_arg=cst.MaybeSentinel.DEFAULT, star_kwarg=None)
            left = [arg for arg in call.args if not arg.star]
            edits[cls.file.scope].parts |= {
                init.params: plain.with_changes(params=nodes.separated(plain.params)),
                call: nodes.with_some(call, left),
            }
    return [one.edited(edits[one.scope]) for one in inputs]


def _handed_on(init: cst.FunctionDef) -> cst.Call | None:
    """The call of the base's constructor that is given the stars of one, which reads them nowhere else."""
    params = init.params
    stars = [one for one in (params.star_arg, params.star_kwarg) if isinstance(one, cst.Param)]
    names = {one.name.value for one in stars}
    if not names or params.kwonly_params:
        return None
    calls = [call for call in every(init.body, cst.Call) if nodes.code(call.func).endswith(".__init__")]
    given = [call for call in calls if names & {nodes.dotted(arg.value) for arg in call.args}]
    if len(given) != 1 or not nodes.code(given[0].func).startswith("super("):
        return None
    args = given[0].args
    read = [one for one in every(init.body, cst.Name) if one.value in names]
    only = all(arg.star and nodes.dotted(arg.value) in names for arg in args)
    return given[0] if only and len(read) == len(args) else None


def _has_torchs(cls: ProjectClass, classes: Mapping[str, ProjectClass]) -> bool:
    """Whether the constructor that a class inherits is that of `nn.Module`."""
    seen: set[str] = set()
    while len(cls.bases) == 1 and cls.bases[0] in classes and cls.bases[0] not in seen:
        seen.add(cls.bases[0])
        cls = classes[cls.bases[0]]
        if "__init__" in cls.methods:
            return False
    return len(cls.bases) == 1 and cls.bases[0] not in classes
