"""A person's yes or no to each proposed passage: a labelling task that ``demur annotate`` serves, or a file.

The task lies in ``OUT/review``. An item is named by what is asked and what is shown, so that labels stay with both when
documents or questions change and the task is written anew; labels of what is no more shown are kept and not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from demur.core.records import Document
from demur.core.store import digest, write_json, write_records
from demur.curation.from_docs.gold import Proposal
from demur.curation.from_docs.questions import Question
from demur.judge.annotation.task import Item, Label, Task, final_labels, settled

YES, NO = "yes", "no"
RUBRIC = """\
Does the passage answer the question?

yes  Somebody who has read this passage alone can answer the question from it.
no   It is about something else, or about the matter and does not hold the answer.
0    You cannot tell.

A passage in which the answer's words stand for another reason is a no.
"""


def key_of(question: Question, document: Document) -> str:
    """What a label is kept under."""
    return digest([question.asked, list(question.answers), document.title, document.text], 16)


def write_review(folder: Path, proposals: Iterable[tuple[Question, Proposal]]) -> int:
    """Write the task of all proposals, over one that is there; labels stay. Returns how many items it has."""
    items = {}
    for question, (document, states) in proposals:
        key = key_of(question, document)
        items[key] = Item(
            id=key,
            shown=(
                ("Question", question.asked), ("Answer", " | ".join(question.answers) or "(not written down)"),
                ("Passage", f"{document.title}\n\n{document.text}"), ("From", document.id),
            ),
            about={"states": YES if states else NO},
        )  # fmt: skip
    if items:
        task = Task(
            name="demur from-docs: does the passage answer the question?",
            labels=(Label(name=YES), Label(name=NO)), rubric=RUBRIC, repeats=0,
        )  # fmt: skip
        write_records(folder / "items.jsonl", items.values())
        write_json(folder / "task.json", task.model_dump(mode="json"))
    return len(items)


def read_review(folder: Path) -> Mapping[str, str]:
    """Item -> yes or no, as people settled it; of which nobody can tell is a no.

    Raises:
        UsageError: two people said different things, and nobody settled it.
    """
    if not (folder / "task.json").is_file():
        return {}
    return dict(final_labels(folder)) | dict.fromkeys(settled(folder).cannot, NO)
