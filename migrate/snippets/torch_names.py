import re


def torch_names(leaves, names):
    """torch's name of each leaf, in torch's order, with its path and the order that its axes have here."""
    found = []
    for number, (name, place) in enumerate(names.items()):
        places = place.values() if isinstance(place, dict) else [place or (name, None)]
        heads = [name[: brace.start()] for brace in re.finditer("{", name)]
        firsts = [next(i for i, other in enumerate(names) if other.startswith(head + "{")) for head in heads]
        for leaf, (path, axes) in ((leaf, one) for leaf in leaves for one in places):
            match = re.fullmatch(re.sub(r"\\{\d\\}", r"(\\d+)", re.escape(path)), leaf)
            if match:
                indices = [int(index) for index in match.groups()]
                order = [place for pair in zip(firsts, indices) for place in pair]
                found.append(([*order, number], name.format(*indices), leaf, axes))
    return [entry for _, *entry in sorted(found, key=lambda entry: entry[0])]
