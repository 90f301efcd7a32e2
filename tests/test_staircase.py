"""No file of demur imports another that imports it, inside functions neither. (Who may stand on whom: import-linter.)

A verb of the command is arguments, one function of `demur.api`, and what is printed of what it returns.
"""

import ast
import os
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
from strategies import tiny_release

import demur.api

ROOT = Path(__file__).parents[1]
CLI = sorted((ROOT / "demur" / "cli").glob("*.py"))
VERBS = [file for file in CLI if not file.stem.startswith("_")]
DOORS = re.compile(r"demur\.(api|cli|core)\b|demur\.reports\.tables$|(?!demur)")
"""What a verb may import: the library's functions, what verbs share, errors and texts, and what tables are made of."""
EXCEPTIONS = {
    "demo": {"demur.demo"},  # stands on the library as verbs do, and above it
}
MOST = 3
"""Functions of the library in a job of a verb: what opens, what plans, what does the work."""
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


def without_types(tree):
    """The lines of a file that are run: types are imported for mypy alone."""
    tree.body = [line for line in tree.body if "TYPE_CHECKING" not in ast.unparse(line)[:20]]
    return tree


def faults_of(source, excepted=()):
    """What of a verb's file is work and not talk."""
    tree = without_types(ast.parse(source))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    faults = [
        f"imports {line.module}"
        for line in imports
        if not DOORS.match(str(line.module)) and line.module not in excepted
    ]
    for job in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        lines = [node for node in ast.walk(job) if isinstance(node, ast.ImportFrom)]
        names = [a.name for n in lines if str(n.module).startswith("demur.api") for a in n.names]
        names = [name for name in names if name[0].islower()]  # not what arguments become
        if len(names) > MOST:
            faults.append(f"{job.name} works with {', '.join(names)}")
    return faults + files_touched(tree)


def files_touched(tree):
    """Calls that read or write files."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in calls
    ]
    return [f"{name} of a file" for name in names if name in FILES]


@pytest.mark.parametrize("file", VERBS, ids=lambda file: file.stem)
def test_a_verb_is_arguments_one_call_and_what_is_printed(file):
    assert faults_of(file.read_text(encoding="utf-8"), EXCEPTIONS.get(file.stem, ())) == []


@pytest.mark.parametrize("file", sorted({*CLI} - {*VERBS}), ids=lambda file: file.stem)
def test_what_verbs_share_touches_no_file(file):
    assert files_touched(ast.parse(file.read_text(encoding="utf-8"))) == []


def test_work_in_a_verb_would_be_seen():
    worker = (
        "def run(args):\n    from demur.judge import a\n    from demur.api import b, c, d, e\n"
        "    args.out.write_text(a)\n"
    )
    assert faults_of(worker) == [
        "imports demur.judge",
        "run works with b, c, d, e",
        "write_text of a file",
    ]


def test_the_api_gives_what_it_names_and_types_know_the_same():
    tree = ast.parse((ROOT / "demur" / "api" / "__init__.py").read_text(encoding="utf-8"))
    block = next(line for line in tree.body if isinstance(line, ast.If))
    typed = {a.name: line.module for line in block.body for a in line.names}
    assert typed == {name: f"demur.{room}" for name, room in demur.api._ROOM_OF.items()}
    assert all(callable(getattr(demur.api, name)) for name in typed)


@pytest.mark.integration
def test_a_run_calls_back_up_through_few_places(tmp_path):
    run = ["run", tiny_release(tmp_path / "release", 2), "--system", "reader", "--out", tmp_path]
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "climbs.py", *run],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    *_, count, word = done.stdout.split()
    assert word == "climbs"
    assert 1 <= int(count) <= 12


def test_no_circle_between_files():
    graph = grimp.build_graph("demur", exclude_type_checking_imports=True)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # CycleError names the circle


def places_of_changes():
    """Files and folders that the table of CONTRIBUTING names, ``<name>`` standing for any."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page.partition("## Where a change goes")[2].partition("## Contracts")[0]
    return sorted({name for name in re.findall(r"[`(]((?:demur|docs|suites)/[^`)]*)[`)]", table)})


def test_the_table_of_changes_names_files_that_are_there():
    named = places_of_changes()
    assert len(named) > 20
    assert [name for name in named if not list(ROOT.glob(re.sub("<.*?>", "*", name)))] == []
