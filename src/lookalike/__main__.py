"""``python -m lookalike``: the command line, for torchrun and for where no script is installed."""

import os
import sys

if not sys.flags.safe_path and sys.path[0] == os.getcwd():
    del sys.path[0]  # put there by ``-m``: a module in this folder must not replace a library

from lookalike.cli import main

main()
