"""Tasks for inspect (UK AISI): ``demur export inspect`` writes a package whose tasks call this module.

Install the package alongside demur and inspect-ai (``pip install DIR``) and run its tasks by name::

    inspect eval demur_atlas/oracle --model openai/gpt-4o
    demur run RELEASE --scenarios oracle --system answers:logs/....eval     # the log, as answers of a run

The judge is that of `demur run`: correct C, incorrect I, deflected N. Answers that it cannot grade and failed replies
are unscored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from demur.core.records import Outcome, Status
from demur.core.store import write_atomic
from demur.core.version import __version__
from demur.evaluation.export import (
    Exported,
    Judging,
    Question,
    read_questions,
    slug,
    write_questions,
)
from demur.evaluation.options import RunOptions
from demur.release import Release

LETTERS = {Outcome.CORRECT: "C", Outcome.INCORRECT: "I", Outcome.DEFLECTED: "N"}
"""inspect's values for an outcome."""


def export_inspect(release: Release, options: RunOptions) -> Exported:
    """Write a package of tasks, one for each scenario.

    Args:
        release: opened.
        options: what is asked; ``out`` is the folder of the package; ``-T judge=...`` overrides the judge.
    """
    out = options.out
    package = f"demur_{slug(release.name)}"
    tasks = write_questions(release, out / package, options)
    names = ", ".join(sorted(tasks))
    functions = "".join(
        f'\n\n@task\ndef {name}(judge: str = {options.judge!r}) -> Task:\n    """{n} questions."""\n'
        f"    return inspect_task(HERE, {name!r}, judge)\n"
        for name, n in sorted(tasks.items())
    )
    title = f"{release.name} {release.version}".replace('"', "'").replace("\\", "/")
    write_atomic(
        out / package / "__init__.py", f'"""Tasks of {title}, made by demur {__version__}."""\n'
    )
    write_atomic(out / package / "_registry.py", f"from {package}.tasks import {names}\n")
    write_atomic(
        out / package / "tasks.py",
        "from pathlib import Path\n\nfrom inspect_ai import Task, task\n\n"
        f"from demur.evaluation.for_inspect import inspect_task\n\nHERE = Path(__file__).parent\n{functions}",
    )
    write_atomic(
        out / "pyproject.toml",
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n\n'
        f'[project]\nname = "{package.replace("_", "-")}"\nversion = "{release.version}"\n'
        f'requires-python = ">=3.11"\ndependencies = ["demur>={__version__}", "inspect-ai>=0.3.150"]\n\n'
        f'[project.entry-points.inspect_ai]\n{package} = "{package}._registry"\n\n'
        f'[tool.hatch.build.targets.wheel]\npackages = ["{package}"]\n',
    )
    return Exported(package, tasks)


def inspect_task(folder: Path, name: str, judge: str = "local") -> Any:
    """A task of inspect over exported questions (needs inspect-ai)."""
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset
    from inspect_ai.solver import generate

    exported = {question.id: question for question in read_questions(folder, name)}
    samples = [_sample(question, folder) for question in exported.values()]
    return Task(
        dataset=MemoryDataset(samples, name=name),
        solver=generate(),
        scorer=demur_scorer(exported, judge),
        metadata={"judge": judge},
    )


def _sample(question: Question, folder: Path) -> Any:
    from inspect_ai.dataset import Sample
    from inspect_ai.model import (
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageUser,
        ContentImage,
        ContentText,
    )

    def content(parts: Any) -> list[Any]:
        return [
            ContentImage(image=str(folder / p.image)) if p.image else ContentText(text=p.text)
            for p in parts
        ]

    kinds = {
        "system": ChatMessageSystem,
        "user": ChatMessageUser,
        "assistant": ChatMessageAssistant,
    }
    messages = [kinds[turn.role](content=content(turn.parts)) for turn in question.messages]
    about = {
        "sample": question.ask.sample,
        "scenario": question.ask.scenario.value,
        "recipe": question.ask.recipe,
        "k": question.ask.k,
    }
    return Sample(
        id=question.id, input=messages, target=question.answers.display_form, metadata=about
    )


def demur_scorer(questions: dict[str, Question], judge: str = "local") -> Any:
    """A scorer for inspect with demur's verdicts, and the three rates among graded answers."""
    from inspect_ai.scorer import Score, metric, scorer

    judging = Judging(judge)

    def share(letter: str) -> Any:
        def of(scores: list[Any]) -> float:
            graded = [
                s.score
                for s in scores
                if (s.score.metadata or {}).get("status") == Status.GRADED.value
            ]
            hits = sum((s.metadata or {}).get("letter") == letter for s in graded)
            return hits / len(graded) if graded else float("nan")

        return of

    @metric  # type: ignore[untyped-decorator]
    def accuracy() -> Any:
        return share("C")

    @metric  # type: ignore[untyped-decorator]
    def deflection() -> Any:
        return share("N")

    @metric  # type: ignore[untyped-decorator]
    def hallucination() -> Any:
        return share("I")

    @scorer(metrics=[accuracy(), deflection(), hallucination()], name="demur")  # type: ignore[untyped-decorator]
    def demur() -> Any:
        async def score(state: Any, target: Any) -> Any:
            question = questions[str(state.sample_id)]
            output = state.output
            stop = (
                "length" if output.choices and output.choices[0].stop_reason == "max_tokens" else ""
            )
            error = "" if output.completion.strip() else output.error or "the reply is empty"
            verdict = await judging.verdict(
                question.ask, question.answers, output.completion, finish_reason=stop, error=error
            )
            about = {"status": verdict.status.value, "kind": verdict.kind, "judge": verdict.judge}
            if verdict.outcome is None:
                return Score.unscored(
                    answer=output.completion, explanation=verdict.reason, metadata=about
                )
            letter = LETTERS[verdict.outcome]
            return Score(
                value=letter,
                answer=output.completion,
                explanation=verdict.reason,
                metadata=about | {"letter": letter},
            )

        return score

    return demur()
