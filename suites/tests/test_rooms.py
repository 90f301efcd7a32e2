"""The rules of tests/test_staircase.py for the suites: no circle between files, and thin verbs."""

from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

import demur_suites
from tests.test_staircase import faults_of

OF_DEMUR = ("demur.judge.annotation.task", "demur.evaluation.run_folder", "demur.models")
"""What the verb prints of: a queue's labels, runs that failed, a plan."""
CLI = sorted((Path(demur_suites.__file__).parent / "cli").glob("*.py"))


@pytest.mark.parametrize("file", CLI, ids=lambda file: file.stem)
def test_a_verb_is_arguments_one_call_and_what_is_printed(file):
    faults = faults_of(file.read_text(encoding="utf-8"), OF_DEMUR)
    assert [fault for fault in faults if not fault.startswith("imports demur_suites")] == []


def test_no_circle_between_files():
    graph = grimp.build_graph("demur_suites")
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # CycleError names the circle
