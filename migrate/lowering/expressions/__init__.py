"""Expressions: names, operators, containers and calls, each as the kinds of its parts tell."""
