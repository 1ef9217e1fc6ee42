"""`python -m perdure.cli`: the same as the command `perdure`."""

from perdure.cli.app import main

main()
