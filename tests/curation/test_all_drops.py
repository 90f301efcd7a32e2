from demur.core.records import Drop
from demur.curation.build.decisions import all_drops
from demur.curation.gates.funnel import Decision


def test_what_mining_could_not_ask_is_told_of_the_sample_that_falls_for_it():
    mined = [
        Drop(sample="few", stage="mine", reason="cannot be embedded", detail="NaN"),
        Drop(sample="few", evidence="d1", stage="mine", reason="gold"),
        Drop(sample="stays", stage="mine", reason="no margin"),
        Drop(sample="stays", evidence="d2", stage="mine", reason="repeated"),
        Drop(sample="known", stage="mine", reason="cannot be embedded", detail="NaN"),
    ]
    decisions = {
        "few": Decision(False, "distractors", "0 distractors of 4"),
        "stays": Decision(True, "", "", ("d3",), (("d4", "solves it"),)),
        "known": Decision(False, "parametric", "known by heart"),
    }
    assert all_drops(mined, decisions) == [
        Drop(sample="stays", evidence="d2", stage="mine", reason="repeated"),
        Drop(
            sample="few",
            stage="distractors",
            reason="0 distractors of 4",
            detail="mining: cannot be embedded: NaN",
        ),
        Drop(sample="stays", evidence="d4", stage="distractor", reason="solves it"),
        Drop(sample="known", stage="parametric", reason="known by heart"),
    ]
