"""Models seen from outside of their class: called, handed on, held by objects, changed part by part."""
