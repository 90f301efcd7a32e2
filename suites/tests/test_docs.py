"""The pages of suites/docs are run, and no error names a flag that is none, as in tests/docs/test_docs.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from demur_suites import suite, suites
from tests.docs.test_docs import FLAG, OTHERS, ROOT, commands, flags_of_cures, run_commands
from tests.docs.test_docs import reference_pages as reference_pages  # a fixture
from tests.docs.test_docs import workshop as workshop  # a fixture


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [p for p in sorted((ROOT / "suites/docs").glob("*.md")) if commands(p)],
    ids=lambda p: p.name,
)
def test_every_command_of_a_page_works(page: Path, workshop: Path):
    run_commands(page, workshop)


def test_every_suite_has_a_page():
    """The cure for a set that is not there names the page of its layout (`demur_suites.files.items_file`)."""
    for name in suites():
        assert (ROOT / "suites/docs" / f"{name}.md").is_file(), name


@pytest.mark.heavy
def test_no_cure_names_a_flag_that_is_none(reference_pages: Path):
    pages = [reference_pages / "cli.md", reference_pages / "suites-cli.md"]
    known = {flag for page in pages for flag in re.findall(FLAG, page.read_text())} | OTHERS
    options = [
        o for s in map(suite, suites()) for o in (*s.options, *s.build_options, *s.export_options)
    ]
    known |= {f"--{option.name.replace('_', '-')}" for option in options}
    known |= {"--outputs"}
    named = flags_of_cures(ROOT / "suites/demur_suites")
    assert len(named) > 10
    assert {(name, flag) for name, flag in named if flag not in known} == set()
