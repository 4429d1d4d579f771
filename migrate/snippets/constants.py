from collections.abc import Mapping


def constants(model, params, names):
    """The tensors that a model makes of its settings, a mask for example, by torch's names: those without a place."""
    waiting = [(model.bind({"params": params}), name.split("."), "") for name, place in names.items() if place is None]
    found = {}
    while waiting:
        module, (part, *rest), done = waiting.pop()
        if part.startswith("{"):
            children = {str(number): child for number, child in enumerate(module)}
        else:
            children = {part: module[part] if isinstance(module, Mapping) else getattr(module, part, None)}
        for key, child in children.items():
            if rest and child is not None:
                waiting.append((child, rest, f"{done}{key}."))
            elif child is not None:
                found[f"{done}{key}"] = child
    return found
