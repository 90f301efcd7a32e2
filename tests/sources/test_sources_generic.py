"""The field map: every file kind, inline and referred evidence, and Atlas unchanged."""

import csv
import json

import mini_sources as mini
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demur.curation.sources import DEFECT, open_source
from demur.curation.sources.atlas import Atlas
from demur.errors import UsageError
from demur.sample import atlas
from demur.store import Problems, digest, read_image

ATLAS_MAP = """
name: atlas
samples:
  files: [questions.jsonl]
  split: all
  fields:
    answer_kind: answer_kind
    number: number
    unit: unit
    images: query_image
    gold: [gold_text, gold_images]
    topic: kind
    cluster: entity
    licence: licence
    attributes: [style, ambiguous_with]
documents:
  - files: [kb_text.jsonl]
    fields: {text: text, page: page, source: source, licence: licence}
  - files: [kb_images.jsonl]
    fields: {image: file, page: page, source: source, licence: licence, attributes: [author]}
"""


def test_atlas_survives_the_map_unchanged(tmp_path):
    (tmp_path / "map.yaml").write_text(ATLAS_MAP)
    problems, plain = Problems(), Problems()
    mapped = open_source("generic", atlas(), problems, {"map": str(tmp_path / "map.yaml")})
    native = Atlas(None, plain)
    assert not problems.lines
    ours, theirs = list(mapped.samples()), list(native.samples())
    assert len(ours) == len(theirs) > 1000
    for one, other in zip(ours, theirs, strict=True):
        shared = ("id", "question", "answers", "images", "gold", "topic", "cluster", "split", "native", "licence")
        assert [getattr(one, name) for name in shared] == [getattr(other, name) for name in shared]
    keep = {"id", "title", "text", "image", "page", "source", "licence"}
    assert [d.model_dump(include=keep) for d in mapped.documents()] == [
        d.model_dump(include=keep) for d in native.documents()
    ]
    assert problems.lines == plain.lines


ROW = {"id": "1", "q": "Which?", "a": "x|y&z", "pic": "p.png", "doc": ["d1"], "neg": ["d2"]}
MAP = """
samples:
  files: [{file}]
  fields: {{question: q, answers: a, images: pic, gold: doc, negatives: neg}}
  answers: {{any: "|", all: "&", rule: mine}}
documents:
  - files: [docs.jsonl]
    fields: {{title: name, text: body}}
"""


def folder_with(tmp_path, file):
    mini.put(tmp_path / "p.png", mini.png(1))
    mini.put(tmp_path / "demur-map.yaml", MAP.format(file=file))
    mini.lines(tmp_path / "docs.jsonl", [{"id": f"d{n}", "name": f"N{n}", "body": f"Body {n}."} for n in (1, 2)])
    path = tmp_path / file
    if file.endswith((".csv", ".tsv")):
        with path.open("w", newline="") as handle:
            writer = csv.writer(handle, delimiter="\t" if file.endswith("tsv") else ",")
            writer.writerow(ROW)
            writer.writerow([json.dumps(v) if isinstance(v, list) else v for v in ROW.values()])
    elif file.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist([ROW | {"pic": mini.cell(1)}]), path)
    elif file.endswith(".json"):
        path.write_text(json.dumps([ROW]))
    else:
        mini.lines(path, [ROW])
    return tmp_path


@pytest.mark.parametrize("file", ["q.jsonl", "q.jsonl.gz", "q.json", "q.csv", "q.tsv", "q.parquet"])
def test_every_kind_of_file_gives_the_same_sample(tmp_path, file):
    problems = Problems()
    source = open_source("generic", folder_with(tmp_path, file), problems)
    samples = list(source.samples())
    assert not problems.lines
    (sample,) = samples
    assert sample.answers.accepted == (("x",), ("y", "z"))
    assert (sample.answers.kind, sample.answers.rule) == ("parts", "mine")
    assert [(e.id, e.title, e.text) for e in sample.gold] == [("d1", "N1", "Body 1.")]
    assert [e.id for e in sample.negatives] == ["d2"]
    assert digest(read_image(sample.images[0], source.root)) == digest(mini.png(1))


@pytest.mark.integration
def test_a_datasets_repository_on_disk(tmp_path):
    pytest.importorskip("datasets")
    (tmp_path / "repo").mkdir()
    pq.write_table(
        pa.Table.from_pylist([ROW | {"pic": mini.cell(1), "doc": ["Body one."], "neg": []}]),
        tmp_path / "repo/test.parquet",
    )
    mini.put(
        tmp_path / "demur-map.yaml",
        "samples:\n  dataset: {path: repo, split: test}\n  fields: {question: q, answers: a, images: pic, gold: doc}\n",
    )
    problems = Problems()
    source = open_source("generic", tmp_path, problems)
    (sample,) = source.samples()
    assert not problems.lines
    assert sample.gold[0].text == "Body one."
    assert sample.images[0].uri.startswith("images-from-datasets/")
    assert digest(read_image(sample.images[0], source.root)) == digest(mini.png(1))


def test_inline_evidence_nested_fields_and_options(tmp_path):
    mini.put(tmp_path / "e.png", mini.png(2))
    rows = [
        {"id": 7, "question": "Which?", "out": {"answer": ["B"]}, "choices": ["one", "two"],
         "gold": [{"id": "g", "title": "T", "text": "Text."}, {"image": "e.png", "title": "A picture"}],
         "neg": [{"id": "n", "image": "gone.png"}, {"text": "text."}], "ok": "no"},
    ]  # fmt: skip
    mini.lines(tmp_path / "q.jsonl", rows)
    mini.put(
        tmp_path / "demur-map.yaml",
        "name: mine\nsamples:\n  files: ['*.jsonl']\n"
        "  fields: {answers: out.answer, choices: choices, gold: gold, negatives: neg, answerable: ok}\n",
    )
    problems = Problems()
    (sample,) = open_source("generic", tmp_path, problems).samples()
    assert (sample.id, sample.source, sample.answerable) == ("7", "mine", False)
    assert sample.answers.choices == (("A", "one"), ("B", "two"))
    assert [e.modality for e in sample.gold] == ["text", "image"]
    assert sample.negatives == ()  # one is gone, one repeats the gold
    assert problems.lines == ["q.jsonl:1 (7): distractor picture missing: gone.png"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("samples: {files: [a.jsonl], fieldz: {}}", "samples.fieldz: Extra inputs"),
        ("samples: {}", "give either files or dataset"),
        ("samples: [", "not YAML"),
        ("name: A B\nsamples: {files: [a.jsonl]}", "name: String should match"),
    ],
)
def test_a_wrong_map_is_named(tmp_path, text, why):
    mini.put(tmp_path / "demur-map.yaml", text)
    with pytest.raises(UsageError, match=why) as caught:
        open_source("generic", tmp_path, Problems())
    assert "demur-map.yaml" in str(caught.value)


def test_gold_that_no_document_has_is_a_defect(tmp_path):
    folder_with(tmp_path, "q.jsonl")
    mini.lines(tmp_path / "q.jsonl", [ROW | {"doc": ["d1", "d9"]}])
    problems = Problems()
    (sample,) = open_source("generic", tmp_path, problems).samples()
    assert sample.attributes[DEFECT] == "gold document missing: d9"
    assert len(problems) == 1
