"""The field map: every file kind, inline and referred evidence, and Atlas unchanged."""

import base64
import csv
import json

import mini_sources as mini
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from errors import places, raises

from demur.answers.choices import right_labels
from demur.cli import main
from demur.core.errors import UsageError
from demur.core.store import Problems, digest
from demur.core.uris import read_image
from demur.corpora import NOT_DOWNLOADED
from demur.sample import atlas
from demur.sources import DEFECT, open_source
from demur.sources.atlas import Atlas


@pytest.mark.reference
def test_atlas_is_read_by_a_map_and_nothing_of_its_rows_is_lost():
    def rows(name):
        return {
            row["id"]: row for row in map(json.loads, (atlas() / name).read_text().splitlines())
        }

    source = Atlas()
    questions, passages, pictures = map(
        rows, ("questions.jsonl", "kb_text.jsonl", "kb_images.jsonl")
    )
    samples = {sample.id: sample for sample in source.samples()}
    documents = {document.id: document for document in source.documents()}
    assert not source.problems
    assert list(samples) == list(questions)
    assert list(documents) == [*passages, *pictures]
    for id, row in questions.items():
        sample = samples[id]
        assert (sample.question, sample.topic, sample.cluster) == (
            row["question"],
            row["kind"],
            row["entity"],
        )
        assert sample.answers.accepted == tuple((answer,) for answer in row["answers"])
        assert sample.answers.number == (tuple(row["number"]) if row.get("number") else None)
        assert [e.id for e in sample.gold] == [*row["gold_text"], *row["gold_images"]]
        assert [ref.uri for ref in sample.images] == (
            [row["query_image"]] if row["query_image"] else []
        )
        assert sample.native == row
    for id, row in (passages | pictures).items():
        document, found = documents[id], row | {"text": row.get("text"), "file": row.get("file")}
        assert (document.text, document.image and document.image.uri) == (
            found["text"],
            found["file"],
        )
        assert (document.title, document.page, document.licence) == (
            row["title"],
            row["page"],
            row["licence"],
        )


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
    mini.lines(
        tmp_path / "docs.jsonl",
        [{"id": f"d{n}", "name": f"N{n}", "body": f"Body {n}."} for n in (1, 2)],
    )
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
    assert sample.images[0].uri.startswith("images-from-cells/")
    assert digest(read_image(sample.images[0], source.root)) == digest(mini.png(1))


TEXT = base64.b64encode(mini.png(1)).decode()
PICTURES = {
    "a data URI": f"data:image/png;base64,{TEXT}",
    "base64": TEXT,
    "base64 in lines": "\n".join(TEXT[i : i + 76] for i in range(0, len(TEXT), 76)),
    "an object with base64": {"bytes": TEXT, "path": None},
    "an object with a data URI": {"bytes": f"data:image/png;base64,{TEXT}"},
    "an object with a path": {"bytes": None, "path": "p.png"},
}


@pytest.mark.parametrize("file", ["q.jsonl", "q.csv", "q.parquet"])
@pytest.mark.parametrize("form", PICTURES)
def test_a_picture_in_a_cell_is_read_in_every_form_that_tables_have(tmp_path, file, form):
    row = ROW | {"pic": PICTURES[form]}
    folder = folder_with(tmp_path, file)
    if file == "q.parquet":
        pq.write_table(pa.Table.from_pylist([row]), folder / file)
    elif file == "q.jsonl":
        mini.lines(folder / file, [row])
    else:
        with (folder / file).open("w", newline="") as handle:
            cells = [v if isinstance(v, str) else json.dumps(v) for v in row.values()]
            csv.writer(handle).writerows([row, cells])
        if isinstance(row["pic"], dict) and "path" in row["pic"]:  # null is no word of Python's
            return
    problems = Problems()
    source = open_source("generic", folder, problems)
    (sample,) = source.samples()
    assert not problems.lines
    assert read_image(sample.images[0], source.root) == mini.png(1)


@pytest.mark.parametrize(
    ("cell", "status"),
    [
        ("https://example.org/p.png", "not downloaded"),
        ({"bytes": None, "path": "s3://bucket/p.png"}, "not downloaded"),
        ({"url": "http://example.org/p.png"}, "not downloaded"),
        ("x" * 3000, "missing"),
        ("../p.png", "missing"),
        ({"bytes": "no base64!"}, "unreadable"),
        ({"size": 3}, "unreadable"),
    ],
)
def test_a_picture_that_cannot_be_had_is_named_with_its_reason(tmp_path, cell, status):
    folder = folder_with(tmp_path, "q.jsonl")
    mini.lines(folder / "q.jsonl", [ROW | {"pic": cell}])
    (sample,) = open_source("generic", folder, Problems()).samples()
    assert sample.attributes[DEFECT].startswith(f"query image {status}: ")
    if status == "not downloaded":
        assert NOT_DOWNLOADED in sample.attributes[DEFECT]


def test_inline_evidence_nested_fields_and_options(tmp_path):
    mini.put(tmp_path / "e.png", mini.png(2))
    rows = [
        {
            "id": 7,
            "question": "Which?",
            "out": {"answer": ["B"]},
            "choices": ["one", "two"],
            "gold": [
                {"id": "g", "title": "T", "text": "Text."},
                {"image": "e.png", "title": "A picture"},
            ],
            "neg": [{"id": "n", "image": "gone.png"}, {"text": "text."}],
            "ok": "no",
        },
    ]
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
    assert places(problems.lines) == ["q.jsonl:1 (7)"]
    assert "gone.png" in problems.lines[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "samples: {files: [a.jsonl], fieldz: {}}",
            "'fieldz'",
        ),
        ("samples: {}", "line 1: samples: needs `files` or `dataset`"),
        (
            "samples:\n  files: [a]\n  dataset: {path: x}",
            "line 1: samples: needs `files` or `dataset`",
        ),
        ("samples: [", "line 1: "),
        ("", "mapping"),
        ("- a", "mapping"),
        ("name: x", "'samples'"),
        (
            "name: A B\nsamples: {files: [a.jsonl]}",
            "'A B'",
        ),
        (
            "samples:\n  files: [a]\n  fields:\n    id: id\n    golde: x",
            "'golde'; did you mean 'gold'?",
        ),
        (
            "samples:\n  files: [a]\n  fields:\n    id: [a, b]",
            "line 4: samples.fields.id is ['a', 'b']",
        ),
        (
            "samples:\n  files: [a]\n  fields:\n    gold: {a: b}",
            "line 4: samples.fields.gold is {'a': 'b'}",
        ),
        (
            "samples:\n  files: [a]\n  fields: question",
            "line 3: samples.fields ",
        ),
        (
            "samples:\n  files: [a]\n  fields:\n    gold: a\n    gold: b",
            "line 5: samples.fields.gold ",
        ),
        (
            "samples: {files: [a]}\ndocuments:\n  - files: [b]\n    feelds: {}",
            "'feelds'",
        ),
        (
            "samples: {files: [a]}\ndocuments:\n  - files: [b]\n    fields: {id: id}",
            "documents[0]: needs fields",
        ),
        (
            "samples: {files: [a]}\ndocuments: text.jsonl",
            "line 2: documents ",
        ),
        ("samples: {files: [a], dataset: }", "samples"),
    ],
)
def test_a_wrong_map_is_told_in_words_of_the_map(tmp_path, text, why):
    path = mini.put(tmp_path / "demur-map.yaml", text)
    if "dataset: }" in text:  # an empty value is no second origin
        open_source("generic", tmp_path, Problems())
        return
    with pytest.raises(UsageError) as caught:
        open_source("generic", tmp_path, Problems())
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert why in said
    assert "for example `" in said
    for word in ("Input should", "Extra inputs", "Field required", "pydantic", "tuple"):
        assert word not in said


def test_the_example_of_a_map_works():
    """What errors advise is read without a complaint."""
    from demur.sources.field_map import FORM, FieldMap

    example = FORM.cure.partition("`")[2].partition("`")[0]
    assert FieldMap.model_validate(yaml.safe_load(example)).samples.files == ("questions.jsonl",)


def test_all_that_is_wrong_with_a_map_is_told_at_once(tmp_path):
    mini.put(
        tmp_path / "demur-map.yaml",
        "nam: x\nsamples:\n  files: [a]\n  fields: {golde: g, anwers: a}\n",
    )
    with pytest.raises(UsageError) as caught:
        open_source("generic", tmp_path, Problems())
    assert all(word in str(caught.value) for word in ("'name'", "'gold'", "'answers'"))


def wrongly_mapped(folder, fields, **documents):
    mini.put(
        folder / "demur-map.yaml",
        yaml.safe_dump(
            {
                "samples": {"files": ["q.jsonl"], "fields": fields},
                "documents": [{"files": ["docs.jsonl"], "fields": {"text": "body", **documents}}],
            }
        ),
    )
    mini.lines(folder / "docs.jsonl", [{"id": "d1", "title": "N", "body": "Body one."}])
    mini.lines(
        folder / "q.jsonl",
        [
            {
                "id": str(n),
                "question": f"Which {n}?",
                "answers": ["x"],
                "gold_text": ["d1"],
                "pic": None,
            }
            for n in range(4)
        ],
    )
    return folder


@pytest.mark.parametrize(
    ("fields", "documents", "said"),
    [
        (
            {"gold": "gold_txt"},
            {},
            "samples.fields.gold: gold_txt: none of the 4 rows of q.jsonl has this field; did you mean 'gold_text'?",
        ),
        (
            {"gold": ["gold_text", "drawing"]},
            {},
            "samples.fields.gold: drawing: none of the 4 rows",
        ),
        (
            {"gold": "gold_text", "images": "picture"},
            {},
            "samples.fields.images: picture: none of the 4 rows",
        ),
        ({"gold": "gold_text", "answerable": "ok"}, {}, "samples.fields.answerable: ok: none"),
        (
            {"gold": "gold_text", "attributes": ["style"]},
            {},
            "samples.fields.attributes: style: none",
        ),
        (
            {"gold": "gold_text", "answers": "answer.text"},
            {},
            "samples.fields.answers: answer.text: none",
        ),
        (
            {"gold": "gold_text"},
            {"page": "url"},
            "documents[0].fields.page: url: none of the 1 rows of docs.jsonl",
        ),
        (
            {"gold": "gold_text"},
            {"text": "bodi"},
            "documents[0].fields.text: bodi: none of the 1 rows of docs.jsonl has this field; did you mean 'body'?",
        ),
    ],
)
def test_a_field_that_no_row_has_is_a_finding(tmp_path, fields, documents, said, capsys):
    wrongly_mapped(tmp_path, fields, **documents)
    assert main(["sources", "check", f"generic:{tmp_path}"]) == 1
    out = capsys.readouterr().out
    assert f"demur-map.yaml: {said}" in out


def test_a_right_map_has_no_finding_and_tells_what_it_leaves_alone(tmp_path, capsys):
    wrongly_mapped(tmp_path, {"gold": "gold_text"})
    assert main(["sources", "check", f"generic:{tmp_path}"]) == 0
    out = capsys.readouterr().out
    assert "1  fields" in out
    assert "4  rows without answer_kind" in out


def test_a_wrong_map_is_told_in_place_of_what_it_spoils_and_by_a_limited_reading_too(
    tmp_path, capsys
):
    wrongly_mapped(tmp_path, {"gold": "gold_text", "answers": "answer"})
    assert main(["sources", "check", f"generic:{tmp_path}", "--limit", "2", "--json"]) == 1
    (first,) = json.loads(capsys.readouterr().out)["findings"]
    assert first.startswith("demur-map.yaml: samples.fields.answers: answer: ")


def test_a_field_that_only_late_rows_have_is_no_finding(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("demur.sources.generic.LOOKED_AT", 2)
    wrongly_mapped(tmp_path, {"gold": "gold_text", "topic": "kind"})
    rows = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    rows[-1]["kind"] = "late"
    mini.lines(tmp_path / "q.jsonl", rows)
    for limit in ((), ("--limit", "3")):
        assert main(["sources", "check", f"generic:{tmp_path}", *limit]) == 0
        assert "samples.fields" not in capsys.readouterr().out


def test_a_build_refuses_a_wrong_map_too(tmp_path):
    from demur.core.errors import BadInput
    from demur.pools.write import build

    wrongly_mapped(tmp_path / "data", {"gold": "gold_text", "topic": "kind"})
    with raises(BadInput, "demur-map.yaml: samples.fields.topic: kind: ", item="generic"):
        build(
            [open_source("generic", tmp_path / "data", Problems())],
            tmp_path / "pool",
            for_release=True,
        )


def test_ids_without_documents_are_not_taken_for_texts(tmp_path):
    mini.put(tmp_path / "demur-map.yaml", "samples: {files: q.jsonl, fields: {gold: gold}}\n")
    mini.lines(
        tmp_path / "q.jsonl",
        [{"id": "1", "question": "Which?", "answers": ["x"], "gold": ["d17", "d18"]}],
    )
    source = open_source("generic", tmp_path, Problems())
    list(source.samples())
    assert places(source.problems.lines) == ["demur-map.yaml"]
    assert "2 gold texts" in source.problems.lines[0]


@pytest.mark.parametrize(
    ("cell", "answerable"),
    [
        (None, True),
        ("", True),
        ("null", True),
        ("None", True),
        (True, True),
        ("yes", True),
        (1, True),
        (1.0, True),
        (False, False),
        ("no", False),
        (0, False),
        (0.0, False),
        ("FALSE", False),
        ("unanswerable", False),
        ("perhaps", None),
    ],
)
def test_what_is_answerable(tmp_path, cell, answerable):
    mini.put(tmp_path / "demur-map.yaml", "samples: {files: q.jsonl, fields: {answerable: ok}}\n")
    rows = [
        {"id": "1", "question": "Which?", "answers": ["x"], "ok": cell},
        {"id": "2", "question": "Who?", "answers": ["x"]},
    ]
    mini.lines(tmp_path / "q.jsonl", rows)
    source = open_source("generic", tmp_path, Problems())
    samples = {sample.id: sample for sample in source.samples()}
    assert samples["2"].answerable  # a row without the field says nothing
    if answerable is None:
        assert "'perhaps'" in source.problems.lines[0]
    else:
        assert samples["1"].answerable is answerable


def test_gold_that_no_document_has_is_a_defect(tmp_path):
    folder_with(tmp_path, "q.jsonl")
    mini.lines(tmp_path / "q.jsonl", [ROW | {"doc": ["d1", "d9"]}])
    problems = Problems()
    (sample,) = open_source("generic", tmp_path, problems).samples()
    assert "d9" in sample.attributes[DEFECT]
    assert len(problems) == 1


def read_row(tmp_path, **changes):
    """(the sample or None, its problems) of one row of `ROW` with these changes."""
    folder, problems = folder_with(tmp_path, "q.jsonl"), Problems()
    text = (folder / "demur-map.yaml").read_text()
    (folder / "demur-map.yaml").write_text(
        text.replace("question: q", "question: q, choices: c").replace('{any: "|", all: "&", ', "{")
    )
    mini.lines(folder / "q.jsonl", [ROW | {"a": "x", "c": None} | changes])
    samples = list(open_source("generic", folder, problems).samples())
    return (samples or [None])[0], problems.lines


@pytest.mark.parametrize(
    ("answers", "accepted"),
    [
        ({"text": ["Po", "the Po"], "answer_start": [3, 9]}, [("Po",), ("the Po",)]),
        ([{"text": "Po", "answer_start": 3}], [("Po",)]),
        ({"value": "Po", "aliases": ["Po", "Padus"], "type": "x"}, [("Po",), ("Padus",)]),
        (["Po", None, 7, 7.5], [("Po",), ("7",), ("7.5",)]),
        ([["Po", "Ob"]], [("Po", "Ob")]),
    ],
)
def test_answers_in_the_forms_of_squad_and_triviaqa(tmp_path, answers, accepted):
    sample, problems = read_row(tmp_path, a=answers)
    assert not problems
    assert list(sample.answers.accepted) == accepted


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("a", [{"name": "Po"}]),
        ("a", {"answer": "Po"}),
        ("a", [["Po", {"text": "Ob"}]]),
        ("a", True),
        ("q", ["Which?", "Why?"]),
        ("q", {"stem": "Which?"}),
        ("doc", [["d1"]]),
        ("id", {"$oid": "1"}),
        ("c", {"label": ["A", "B"], "text": ["one"], "n": 1}),
        ("c", [{"key": "A", "value": "x"}]),
        ("c", ["x", None]),
    ],
)
def test_an_object_or_list_where_a_text_belongs_is_refused_by_name(tmp_path, field, value):
    sample, problems = read_row(tmp_path, **{field: value})
    assert sample is None
    (problem,) = problems
    assert field in problem
    assert " - " in problem  # and says what to do
    assert "{'" not in problem


def test_passages_that_are_lists_are_refused_by_name(tmp_path):
    folder, problems = folder_with(tmp_path, "q.jsonl"), Problems()
    mini.lines(folder / "docs.jsonl", [{"id": "d1", "name": "N", "body": ["One.", "Two."]}])
    assert not list(open_source("generic", folder, problems).documents())
    assert problems.lines[0].startswith("docs.jsonl:1 (d1): 'body'")


ARC = {"label": ["1", "2"], "text": ["red", "blue"]}


@pytest.mark.parametrize(
    ("choices", "answer", "label"),
    [
        (["red", "blue"], "B", "B"),
        (["red", "blue"], "Blue", "B"),
        (["red", "blue"], 1, "B"),
        (["red", "blue"], 0, "A"),
        (["red", "blue"], "1", "B"),
        (["7", "8", "9"], "8", "B"),
        (["0", "1"], 1, "B"),
        (ARC, "2", "2"),
        (ARC, 2, "2"),
        ([{"label": "x", "text": "red"}, {"label": "y", "text": "blue"}], "y", "y"),
        ({"p": "red", "q": "blue"}, "blue", "q"),
        ('["red", "blue"]', "blue", "B"),
        (["red", "blue"], 2, None),
        (["red", "blue"], "green", None),
        (["red", "blue"], ["red", "green"], None),
        (["1", "2", "3", "4"], 2, None),  # a position or a text?
        (ARC, "3", None),
    ],
)
def test_the_gold_of_a_choice_names_an_option_or_is_refused(tmp_path, choices, answer, label):
    sample, problems = read_row(tmp_path, c=choices, a=answer)
    if label is None:
        assert sample is None
        assert len(problems) == 1
    else:
        assert not problems
        assert right_labels(sample.answers) == {label}


TABLE_MAP = """
name: table
samples:
  files: [q.csv]
  fields: {id: id, question: q, answers: a, gold: g, number: n, choices: c, images: photo}
documents: {files: [d.csv], fields: {id: id, title: title, text: text, image: photo}}
"""


@pytest.mark.parametrize(
    ("number", "choices", "span", "shown"),
    [
        ("46", "", (46, 46), ()),  # not 4 to 6
        ("[4, 6.5]", "", (4, 6.5), ()),
        ("", "['red', 'blue']", None, (("A", "red"), ("B", "blue"))),
        ("", "{'x': 'red'}", None, (("x", "red"),)),
        ("abc", "", "n holds 'abc'", None),
        ("[4]", "", "n holds [4]", None),
        ("", "red", "c holds 'red'", None),
    ],
)
def test_cells_of_a_table_are_numbers_choices_or_empty(tmp_path, number, choices, span, shown):
    (tmp_path / "demur-map.yaml").write_text(TABLE_MAP)
    (tmp_path / "d.csv").write_text("id,title,text,photo\nd1,T,All 46 are red,\n")
    with (tmp_path / "q.csv").open("w", newline="") as handle:
        table = csv.writer(handle)
        table.writerows(
            [
                ["id", "q", "a", "g", "n", "c", "photo"],
                ["1", "How many?", "red", "d1", number, choices, ""],
            ]
        )
    source = open_source("generic", tmp_path)
    samples = list(source.samples())
    if isinstance(span, str):
        assert not samples
        assert span in source.problems.lines[0]
        return
    (sample,) = samples
    assert (sample.answers.number, sample.answers.choices) == (span, shown)
    assert (
        DEFECT not in sample.attributes
    )  # an empty cell is no missing image, of a question or a document
    assert [e.id for e in sample.gold] == ["d1"]
