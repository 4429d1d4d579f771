"""The files of a project: read, reached by imports, cut out of installed packages, and what of them is used."""
