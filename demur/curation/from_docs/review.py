"""A person's yes or no to each proposed passage: a labelling task for ``demur annotate``, or a file.

One question's passages are shown together, likeliest first; the first yes settles the question. The task is in
``OUT/review``. An item's id is a hash of question and passage, so labels survive when documents or
questions change and the task is written again. Labels of items that no longer exist are kept and ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from demur.core.records import Document, ImageRef
from demur.core.store import digest, write_atomic, write_json, write_records
from demur.curation.from_docs.gold import Proposal
from demur.curation.from_docs.questions import Question
from demur.judge.annotation.task import Item, Label, Task, final_labels, settle_labels

YES, NO = "yes", "no"
PASSAGE = "Passage"
RUBRIC = """\
Does the passage answer the question?

yes  Somebody who has read this passage alone can answer the question from it.
no   It is about something else, or about the matter and does not hold the answer.
0    You cannot tell.

A passage in which the answer's words stand for another reason is a no.
"""


def key_of(question: Question, document: Document) -> str:
    """The id of a question with a passage."""
    content = document.text if document.image is None else document.image.sha256
    return digest(
        [question.question_with_turns, list(question.answers), document.title, content], 16
    )


def write_review(
    folder: Path,
    proposals: Iterable[tuple[Question, Proposal]],
    read_image: Callable[[ImageRef], bytes],
) -> int:
    """Write the task of all proposals, replacing an earlier one; labels stay. Returns the number of items."""
    items = {}
    for question, (document, states, answers) in proposals:
        key = key_of(question, document)
        images: tuple[str, ...] = ()
        if (image := document.image) is not None:
            images = (f"{image.sha256}.{image.media_type.rpartition('/')[2]}",)
            write_atomic(folder / "images" / images[0], read_image(image))
        items[key] = Item(
            id=key,
            shown=(
                ("Question", question.question_with_turns),
                ("Answer", " | ".join(question.answers) or "(not written down)"),
                (PASSAGE, f"{document.title}\n\n{document.text or ''}".strip()),
                ("From", document.id),
            ),
            images=images,
            marks=tuple((PASSAGE, answer) for answer in answers),
            group=digest([question.question_with_turns, list(question.answers)], 16),
            about={"states": YES if states else NO},
        )
    if items:
        task = Task(
            name="demur from-docs: does the passage answer the question?",
            labels=(Label(name=YES), Label(name=NO)),
            rubric=RUBRIC,
            repeats=0,
            closing=YES,
        )
        write_records(folder / "items.jsonl", items.values())
        write_json(folder / "task.json", task.model_dump(mode="json"))
    return len(items)


def read_review(folder: Path) -> Mapping[str, str]:
    """Item -> yes or no; an item that people cannot tell is a no.

    Raises:
        UsageError: two people disagree on an item, and nobody has decided.
    """
    if not (folder / "task.json").is_file():
        return {}
    return dict(final_labels(folder)) | dict.fromkeys(settle_labels(folder).cannot, NO)
