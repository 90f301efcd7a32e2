"""People label items in a local page: what is asked, what was said, and who disagrees.

A folder holds one task (``task.json``, ``items.jsonl``, ``images/``) and one append-only journal per annotator
(``labels/NAME.jsonl``). Items are data: answers of runs (`demur.reports.annotate`), yes/no questions of a suite, drafts
of a curation. Nothing here knows what a label means.
"""
