"""Everything people look at: tables, figures, the terminal summary and the HTML report.

A report is a pure function of files (a release folder and run folders): the same files give the same bytes.
"""

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    """This package, which is a function too: ``demur.report(runs, out)`` is the front door's, and a package of that
    name takes the attribute's place as soon as it is imported.
    """

    def __call__(self, *args: Any, **options: Any) -> Any:
        from demur.api import report

        return report(*args, **options)


sys.modules[__name__].__class__ = _Room
