import dataclasses


def starting_from(module, read):
    """The module, to which `init` gives the variables that are read then, instead of new ones; those of replaced parts
    are left out."""

    def kept(module, values, path="new"):
        names = {name: f"{path}_{name.removeprefix('layers_')}" for name in values}
        return {
            name: kept(module, value, names[name]) if isinstance(value, dict) else value
            for name, value in values.items()
            if getattr(module, names[name], None) is None
        }

    class Started(type(module)):
        initial = staticmethod(read)

        def setup(self):
            if self.is_initializing():
                for collection, values in read().items():
                    for name, value in kept(self, values).items():
                        self.put_variable(collection, name, value)
            super().setup()

    Started.__name__ = type(module).__name__
    names = [field.name for field in dataclasses.fields(module) if field.init and field.name not in ("parent", "name")]
    return Started(**{name: getattr(module, name) for name in names})
