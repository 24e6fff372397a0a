"""`python -m gpusim.cli`, where the `gpusim` command is not on the path."""

import sys

from gpusim.cli import main

if __name__ == "__main__":
    sys.exit(main())
