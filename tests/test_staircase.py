"""No file of demur imports another that imports it, inside functions neither. (Who may stand on whom: import-linter.)

A verb of the command is arguments, one function of the library, and what is printed of what it returns.
"""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

CLI = sorted((Path(__file__).parents[1] / "demur" / "cli").glob("*.py"))
PRINTING = {
    "demur.core.errors",
    "demur.core.progress",
    "demur.core.text",
    "demur.core.version",
    "demur.reports.terminal",
    "demur.reports.tables",
    "demur.reports.compare_tables",
    "demur.reports.data",
    "demur.reports.official",
    "demur.release.evidence",
    "demur.release.card",
}
"""Modules of what is read and shown, and of what goes wrong."""
PARSED = {"Budget", "JudgeContext", "ModelOptions", "Prompts", "Problems", "RayEngine", "cores"}
"""What arguments become."""
MOST = 3
"""Names of the library in a job of a verb: what opens, what plans, what does the work."""
FILES = {
    "read_text",
    "write_text",
    "read_bytes",
    "write_bytes",
    "mkdir",
    "unlink",
    "rename",
    "rmtree",
}


def library_of(job):
    """Names that a function of the command takes from the rooms, to work with."""
    lines = [node for node in ast.walk(job) if isinstance(node, ast.ImportFrom)]
    rooms = [n for n in lines if re.match(r"demur(_suites)?\b(?!\.cli\b)", str(n.module))]
    return [
        a.name for n in rooms if n.module not in PRINTING for a in n.names if a.name not in PARSED
    ]


def faults_of(source):
    """What of a verb's file is work and not talk."""
    tree = ast.parse(source)
    jobs = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    found = [
        f"{job.name} works with {', '.join(names)}"
        for job in jobs
        if len(names := library_of(job)) > MOST
    ]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in calls
    ]
    return found + [f"{name} of a file" for name in names if name in FILES]


@pytest.mark.parametrize("file", CLI, ids=lambda file: file.stem)
def test_a_verb_is_arguments_one_call_and_what_is_printed(file):
    assert faults_of(file.read_text(encoding="utf-8")) == []


def test_work_in_a_verb_would_be_seen():
    worker = "def run(args):\n    from demur.judge import a, b\n    from demur.models import c, d\n    args.out.write_text(a)\n"
    assert faults_of(worker) == ["run works with a, b, c, d", "write_text of a file"]


def test_no_circle_between_files():
    graph = grimp.build_graph("demur", exclude_type_checking_imports=True)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # CycleError names the circle


def places_of_changes():
    """Files and folders that the table of CONTRIBUTING names, ``<name>`` standing for any."""
    page = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page.partition("## Where a change goes")[2].partition("## Contracts")[0]
    return sorted({name for name in re.findall(r"[`(]((?:demur|docs|suites)/[^`)]*)[`)]", table)})


def test_the_table_of_changes_names_files_that_are_there():
    root = Path(__file__).parents[1]
    named = places_of_changes()
    assert len(named) > 20
    assert [name for name in named if not list(root.glob(re.sub("<.*?>", "*", name)))] == []
