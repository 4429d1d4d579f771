"""The first weights of a model: example inputs for `model.init`, and the initialisers that a script asks for."""
