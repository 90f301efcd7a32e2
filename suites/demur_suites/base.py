"""A suite with its doors: build and export items, ask systems, score replies, write the page; and suites by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from demur.core import plugins
from demur.core.errors import UsageError
from demur.scenarios.conditions import Prompts
from demur_suites.contract import Contract, I, S
from demur_suites.options import filled
from demur_suites.records import Outputs

if TYPE_CHECKING:
    from demur.evaluation.run_folder import Task
    from demur.models import Estimate
    from demur.scenarios.systems import SystemLike


class Suite(Contract[I, S]):
    """A suite; subclass it, fill the abstract methods of `Contract`, register the class under ``demur.suites``."""

    def build(self, out: str | Path, *, seed: int = 0, **options: Any) -> Path:
        """Make a set of items in ``out``; returns the path that `load` takes. ``options`` are its ``build_options``.

        Raises:
            UsageError: there is no such option, or items of this suite cannot be made without its authors' data.
        """
        return self.make_items(Path(out), seed, filled(self.name, self.build_options, options))

    def export(
        self,
        path: str | Path,
        out: str | Path,
        *,
        outputs: Outputs = MappingProxyType({}),
        seed: int = 0,
        skip_bad: bool = False,
        **options: Any,
    ) -> Path:
        """Write a set of items for another use (training data).

        Args:
            path: of the items.
            out: folder to write.
            outputs: replies of models, where an export needs them.
            seed: of random choices.
            skip_bad: leave bad items out.
            options: its ``export_options``.

        Raises:
            UsageError: there is no such option, or this suite exports nothing.
        """
        values = filled(self.name, self.export_options, options)
        return self.write_export(
            self.open(path, skip_bad=skip_bad), Path(out), outputs, seed, values
        )

    def tasks(
        self, items: Sequence[I], *, limit: int | None = None, prompts: Prompts | None = None
    ) -> list[Task]:
        """What a run asks; see `demur_suites.running.tasks_of`."""
        from demur_suites.running import tasks_of

        return tasks_of(self, items, limit=limit, prompts=prompts)

    def run(
        self,
        path: str | Path,
        systems: SystemLike | Sequence[SystemLike],
        out: str | Path,
        **how: Any,
    ) -> list[Path]:
        """Ask systems every question of a set of items; see `demur_suites.running.run`."""
        from demur_suites.running import run

        return run(self, path, systems, out, **how)

    def plan(
        self, path: str | Path, systems: str | Sequence[str], out: str | Path, **how: Any
    ) -> Estimate:
        """What `run` with the same arguments would cost; see `demur_suites.running.planned`."""
        from demur_suites.running import planned

        return planned(self, path, systems, out, **how)

    def scores(self, items: Sequence[I], outputs: Outputs, **how: Any) -> list[S]:
        """The score of each model; see `demur_suites.scoring.score_models`."""
        from demur_suites.scoring import score_models

        return [result.score for result in score_models(self, items, outputs, **how)]

    def report(self, path: str | Path, outputs: Outputs, out: str | Path, **how: Any) -> Path:
        """One HTML page: the tables, and a card for each item; see `demur_suites.report.write_report`."""
        from demur_suites.report import write_report

        return write_report(self, path, outputs, out, **how)


# --- by name ----------------------------------------------------------------------------------------


def suites() -> tuple[str, ...]:
    """Names of the registered suites; nothing is imported."""
    return plugins.names("suites")


def suite(name: str) -> Suite[Any, Any]:
    """The suite of a name, or ``module:Class``; text after a name and a colon is its argument (``mm_aqa:cot,base``).

    Raises:
        UnknownPart: no suite has that name; the error lists those that exist.
    """
    factory, argument = plugins.find("suites", name)
    try:
        made = factory(argument) if argument else factory()
    except TypeError as error:  # Python's words: no such argument, an abstract method is missing
        raise UsageError(f"cannot be made: {error}", item=name) from error
    if not isinstance(made, Suite):
        raise UsageError("is no suite", item=name, cure="name a subclass of demur_suites.Suite")
    return made
