"""InfoSeek over the base that EchoSight and those after it use: counts, gold and recall are those of the raw files."""

from __future__ import annotations

import csv
import json
from urllib.parse import unquote

import native_miniatures as native
import pyarrow.parquet as pq
import pytest
import recount
import yaml
from test_walks import demur, recipe

from demur.core.store import Problems
from demur.release import Release
from demur.sources import open_source

pytestmark = pytest.mark.heavy
ASKED, PAGES = 10, 16


def objects(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def raw(folder):
    """(question -> its row, question -> URL of its page, URL -> page), read with json and csv."""
    rows = {row["data_id"]: row for row in objects(folder / "infoseek_val.jsonl")}
    with (folder / "infoseek_test_filtered.csv").open(newline="") as handle:
        url_of = {row["data_id"]: row["wikipedia_url"] for row in csv.DictReader(handle)}
    urls = {id_: plain(url) for id_, url in url_of.items()}
    pages = json.loads((folder / "wiki_100_dict_v4.json").read_text())
    return rows, urls, {plain(url): page for url, page in pages.items()}


def plain(url):
    return unquote(url).replace(" ", "_")


def test_the_fields_questions_get_gold_from_the_fields_pages(tmp_path):
    folder = native.echosight(tmp_path, PAGES, ASKED)
    rows, urls, pages = raw(folder)
    source = open_source("infoseek", folder, problems := Problems(), {"kb": "echosight"})
    samples, documents = list(source.samples()), {d.id: d for d in source.documents()}
    assert not problems.lines
    assert [s.id for s in samples] == list(urls)
    assert sum(source.notes.values()) == len(rows) - len(urls) == 1
    assert sum("#image" in id_ for id_ in documents) == len(pages)
    withkb = objects(folder / "infoseek_val_withkb.jsonl")
    qids = {row["data_id"]: row["entity_id"] for row in withkb}
    for sample in samples:
        assert (sample.attributes["entity"], sample.cluster) == (qids[sample.id],) * 2
        assert plain(sample.attributes["wikipedia_url"]) == urls[sample.id]
        answer = rows[sample.id]["answer"][0]
        held = {
            paragraph
            for text in pages[urls[sample.id]]["section_texts"]
            for paragraph in text.split("\n\n")
            if answer in paragraph
        }
        assert {e.text for e in sample.gold} == held
        assert {plain(e.page) for e in sample.gold} == {urls[sample.id]}
        assert all(e.document in documents for e in sample.gold)


def test_without_the_fields_questions_titles_lead_to_pages(tmp_path):
    folder = native.echosight(tmp_path, PAGES, ASKED)
    _, urls, pages = raw(folder)
    (folder / "infoseek_test_filtered.csv").unlink()
    gone = urls["infoseek_val_00000000"]
    base = {url: page for url, page in pages.items() if url != gone}
    (folder / "wiki_100_dict_v4.json").write_text(json.dumps(base))
    source = open_source("infoseek", folder, problems := Problems(), {"kb": "echosight"})
    found = {s.id: s.attributes["wikipedia_url"] for s in source.samples()}
    assert not problems.lines
    assert len(found) == ASKED - 1
    assert found.items() >= {i: url for i, url in urls.items() if url != gone}.items()


def test_a_page_that_the_base_lacks_is_a_defect_of_its_question(tmp_path):
    folder = native.echosight(tmp_path, PAGES, ASKED)
    (folder / "wiki_100_dict_v4.json").write_text("{}")
    source = open_source("infoseek", folder, problems := Problems(), {"kb": "echosight"})
    samples = list(source.samples())
    assert all(s.attributes["defect"].endswith(s.attributes["wikipedia_url"]) for s in samples)
    assert len(problems.lines) == len(samples) == ASKED - 1


@pytest.mark.slow
def test_recall_by_url_is_the_one_by_hand_and_a_release_is_run_and_reported(tmp_path):
    folder = native.echosight(tmp_path / "infoseek", PAGES, ASKED)
    plan = recipe("infoseek", ("well-read", "text-only"))
    plan["sources"][0] |= {"options": {"kb": "echosight"}}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(plan))
    demur("build", tmp_path / "recipe.yaml", "--out", tmp_path / "out")
    release = Release.open(tmp_path / "out/release")
    _, urls, pages = raw(folder)
    base = recount.Base({}, {}, {url: page["title"] for url, page in pages.items()})
    questions = [
        q._replace(pages=frozenset({urls[q.id]}))
        for q in recount.infoseek_questions(folder)
        if q.id in urls
    ]
    ranked = recount.pages_by_title(questions, base)
    rows = [
        row
        for row in json.loads((release.folder / "recall.json").read_text())
        if row["mode"] == "image->title"
    ]
    assert rows
    for row in rows:
        assert row["n"] == len(questions)
        for k in (1, 5, 10):  # "url matching": the page of the question among the first k
            hits = sum(
                urls[q.id] in [page for _, page in scored[:k]]
                for q, scored in zip(questions, ranked, strict=True)
            )
            assert row[f"recall@{k}"] == pytest.approx(hits / len(questions), abs=5e-4)
    for sample in release.samples():
        gold_pages = {plain(e.page).removeprefix("infoseek:") for e in sample.gold}
        assert gold_pages == {urls[sample.id.removeprefix("infoseek:")]}
    runs = tmp_path / "runs"
    demur(
        "run",
        release.folder,
        "--system",
        "python:native_miniatures:well_read",
        "--out",
        runs,
        "--judge",
        "local",
    )
    (run,) = (path for path in runs.iterdir() if path.is_dir())
    samples = {s.id: s for s in release.samples()}
    for context in objects(run / "contexts.jsonl"):
        gold = {e.id for e in samples[context["sample"]].gold}
        shown = set(context["evidence"])
        expected = {"parametric": set(), "oracle": gold, "realistic": gold, "adversarial": set()}
        assert shown & gold == expected[context["scenario"]]
        assert bool(shown - gold) == (context["scenario"] in ("realistic", "adversarial"))
    answers = {id_: row["answer"][0] for id_, row in raw(folder)[0].items()}
    replies: dict[str, list[bool]] = {}
    for row in pq.read_table(run / "rows.parquet").to_pylist():
        right = row["answer"] == answers[row["sample"].removeprefix("infoseek:")]
        replies.setdefault(row["scenario"], []).append(right)
    for line in json.loads(demur("score", run, "--release", release.folder, "--json")):
        right = replies[line["context"].partition("(")[0]]
        assert (line["score"], line["n"]) == (pytest.approx(sum(right) / len(right)), len(right))
    page = tmp_path / "report.html"
    told = json.loads(demur("report", runs, "--release", release.folder, "-o", page, "--json"))
    assert {line["n"] for line in told["results"]} == {len(list(release.samples()))}
