"""`python -m gpm`: the command line."""

import sys

from gpm.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
