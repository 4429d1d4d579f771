"""`python -m migrate`."""

from migrate.cli import main

main()
