"""``python -m demur`` is the `demur` command."""

import sys

from demur.cli import main

sys.exit(main())
