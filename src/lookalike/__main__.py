"""``python -m lookalike``: the command line, for torchrun and for where no script is installed."""

from lookalike.cli import main

main()
