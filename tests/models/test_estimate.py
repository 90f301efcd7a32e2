"""What a command would cost: tokens from text and image sizes, prices, and what the ledger already holds."""

from __future__ import annotations

import json
from datetime import date

import pytest
from errors import raises

from demur.core.errors import DataError, UsageError
from demur.core.records import ImageRef, Usage
from demur.models import Estimate, EstimateLine, ModelOptions, Prices, complete_all, open_model
from demur.models.estimate import estimate_calls
from demur.models.prices import IMAGE_RULES, Price, price_at_most, prompt_tokens
from demur.testing import FakeEndpoint


def test_every_shipped_price_has_a_date_and_a_known_image_rule():
    table = Prices()._models
    assert len(table) > 40
    for name, price in table.items():
        assert date(2026, 11, 22) <= date.fromisoformat(price.checked), name
        assert price.images in IMAGE_RULES
        assert price.cached is not None
        assert price.cached <= price.prompt


@pytest.mark.parametrize("size", [(40, 30), (640, 480), (1024, 1024), (4000, 3000), (300, 5000)])
def test_the_cautious_image_rule_is_no_less_than_the_hosted_ones(size):
    hosted = [
        name
        for name in IMAGE_RULES
        if not name.endswith("mini") and name not in ("patches28", "cautious")
    ]
    assert IMAGE_RULES["cautious"](*size) >= max(IMAGE_RULES[name](*size) for name in hosted)


def test_a_plan_says_how_old_its_prices_are_and_what_it_does_not_know(ask, tmp_path):
    request = ask("q", max_tokens=9)
    (note,) = estimate_calls("gate", "http://localhost:1/v1#gpt-4o", [request]).notes
    assert "2026-11-22: check it before" in note
    unknown = estimate_calls("gate", "http://localhost:1/v1#my-own", [request])
    assert unknown.money is None
    assert "unknown, not 0" in unknown.notes[0]
    assert "unknown" in unknown.cells()[1]
    old = tmp_path / "mine.json"
    row = {"prompt": 1, "completion": 2, "checked": "2024-01-31"}
    old.write_text(json.dumps({"models": {"gpt-4o": row, "dateless": {**row, "checked": ""}}}))
    assert (
        "six months"
        in estimate_calls("gate", "http://localhost:1/v1#gpt-4o", [request], prices=old).notes[0]
    )
    assert (
        estimate_calls("gate", "http://localhost:1/v1#dateless", [request], prices=old).notes == ()
    )
    assert Price(prompt=1, completion=1, checked="yesterday").old()


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_that_gives_no_time_is_refused(ask, rate):
    with raises(UsageError, "--per-second"):
        estimate_calls("gate", "http://localhost:1/v1#m", [ask("q")], per_second=rate)


def image(width, height):
    return ImageRef(sha256="0" * 64, uri="x.png", width=width, height=height)


@pytest.mark.parametrize(
    ("rule", "width", "height", "tokens"),
    [
        ("tiles512", 512, 512, 85 + 170),  # one tile
        ("tiles512", 1024, 1024, 85 + 170 * 4),  # scaled to 768: 2 x 2 tiles
        ("tiles512", 2048, 4096, 85 + 170 * 6),  # OpenAI's own example of six tiles
        ("patches28", 280, 56, 20),
        ("patches28", 9000, 9000, 16384),
        ("patches32", 64, 33, 4),
        ("area750", 750, 100, 100),
        ("tiles768", 300, 300, 258),
        ("tiles768", 1000, 700, 516),
    ],
)
def test_images_count_by_their_vendors_rule(rule, width, height, tokens):
    assert IMAGE_RULES[rule](width, height) == tokens


def test_prompt_tokens_are_estimated_from_text_and_images(ask):
    assert prompt_tokens(ask("x" * 400)) == 4 + 100
    assert prompt_tokens(ask("東京")) == 4 + 2
    assert prompt_tokens(ask("x" * 400, image(280, 56), "y" * 4)) == 4 + 100 + 20 + 1
    for text in ("plain words", "東京タワー", "🙂" * 30):
        assert prompt_tokens(ask(text)) <= prompt_tokens(ask(text), at_most=True)


def test_a_reply_is_priced_with_what_the_prefix_cache_saved():
    price = Price(prompt=2.0, cached=0.5, completion=8.0)
    assert price.cost_of(
        Usage(prompt=1_000_000, cached=400_000, completion=500_000)
    ) == pytest.approx(1.2 + 0.2 + 4.0)
    assert Price(prompt=2.0, completion=8.0).cost_of(
        Usage(prompt=1_000_000, cached=1_000_000)
    ) == pytest.approx(2.0)


def test_the_most_a_call_can_cost_is_never_less_than_what_it_does(ask):
    price = Price(prompt=2.0, completion=8.0)
    request = ask("a question " * 50, max_tokens=100)
    assert price_at_most(request, price) >= price.cost_of(
        Usage(prompt=prompt_tokens(request), completion=100)
    )


def test_prices_can_be_overlaid_by_file_and_variable(tmp_path, monkeypatch):
    path = tmp_path / "mine.json"
    path.write_text(
        json.dumps(
            {
                "models": {
                    "gpt-4o": {"prompt": 1, "completion": 2},
                    "*": {"prompt": 9, "completion": 9},
                }
            }
        )
    )
    assert Prices(path).find("openai/gpt-4o").prompt == 1
    assert Prices(path).find("anything").prompt == 9
    assert Prices(path).find("hf:anything").prompt == 0
    monkeypatch.setenv("DEMUR_PRICES", str(path))
    assert Prices().find("gpt-4o").prompt == 1
    assert Prices().find("gpt-4o-mini").prompt != 1


@pytest.mark.parametrize(
    ("table", "part"),
    [
        ("{", "JSON"),
        ("[]", '{"models": {name: '),
        ('{"models": {"m": {"prompt": 1}}}', " m: completion: "),
        ('{"models": {"m": {"prompt": -1, "completion": 1}}}', " m: prompt: "),
        (
            '{"models": {"m": {"prompt": 1, "completion": 1, "images": "blobs"}}}',
            "'blobs'",
        ),
    ],
)
def test_a_bad_price_table_says_what_is_wrong(tmp_path, table, part):
    path = tmp_path / "mine.json"
    path.write_text(table)
    with raises(DataError, part, item=f"mine.json{':1' * (table == '{')}"):
        Prices(path)


async def test_a_plan_counts_what_would_be_paid(ask, tmp_path):
    table = tmp_path / "prices.json"
    table.write_text(json.dumps({"models": {"fake": {"prompt": 100.0, "completion": 1000.0}}}))
    requests = [ask("x" * 40 + f"{n:04}", item=str(n), max_tokens=10) for n in range(20)]
    doubled = requests + [r.model_copy(update={"item": "again"}) for r in requests[:5]]
    async with FakeEndpoint() as server:
        text = server.model()
        before = estimate_calls(
            "gate", text, doubled, ledger=tmp_path / "l", prices=table, per_second=2.0
        )
        assert not (tmp_path / "l").exists()  # planning writes nothing
        async with open_model(text, ModelOptions(ledger=tmp_path / "l")) as model:
            async for _ in complete_all(model, requests[:8]):
                pass
        after = estimate_calls(
            "gate", text, doubled, ledger=tmp_path / "l", prices=table, per_second=2.0
        )
        assert server.requests == 8
    line = before.lines[0]
    assert (line.model, line.calls, line.cached, line.prompt, line.completion) == (
        "fake",
        20,
        0,
        20 * 15,
        200,
    )
    assert line.money == pytest.approx((300 * 100 + 200 * 1000) * 1e-6)
    assert line.expected == line.money  # a reply of ten tokens is no longer than usual
    assert line.seconds == 10
    assert (
        after.lines[0].calls,
        after.lines[0].cached,
        after.lines[0].to_pay,
        after.lines[0].seconds,
    ) == (
        20,
        8,
        12,
        6,
    )
    assert (
        estimate_calls(
            "gate",
            text,
            [r.model_copy(update={"draw": 1}) for r in requests],
            ledger=tmp_path / "l",
        )
        .lines[0]
        .cached
        == 0
    )


def test_plans_add_up_and_an_unknown_price_stays_unknown():
    gate = Estimate(
        lines=(
            EstimateLine(
                stage="gate",
                model="a",
                calls=10,
                cached=4,
                prompt=60,
                money=1.5,
                expected=0.5,
                seconds=300,
            ),
        )
    )
    judge = Estimate(lines=(EstimateLine(stage="judge", model="b", calls=2, money=None),))
    done = Estimate(lines=(EstimateLine(stage="judge", model="b", calls=2, cached=2, money=None),))
    assert (gate + judge).money is None
    assert (gate + done).money == 1.5
    table = (gate + judge).cells()
    assert len(table) == 4
    assert table[1] == ["gate", "a", "10", "4", "60", "0", "$0.50", "$1.50", "5 min"]
    assert "unknown" in table[2]
    assert table[3][:4] == ["total", "", "12", "4"]
    assert [line.to_pay for line in (gate + judge).lines] == [6, 2]


async def test_beside_the_bound_stands_what_replies_of_the_usual_length_cost(ask, tmp_path):
    """A thousand one-line answers of a model at $5 and $30 were planned at 4,096 tokens each."""
    table = tmp_path / "prices.json"
    table.write_text(json.dumps({"models": {"fake": {"prompt": 0.0, "completion": 30.0}}}))
    requests = [ask(f"q{n}") for n in range(1000)]
    [line] = estimate_calls("run", "http://h/v1#fake", requests, prices=table).lines
    assert line.money == pytest.approx(1000 * 4096 * 30e-6)
    assert line.expected == pytest.approx(1000 * 60 * 30e-6)
    async with (
        FakeEndpoint() as server,
        open_model(server.model(), ModelOptions(ledger=tmp_path / "l")) as model,
    ):
        await model.complete(requests[0])  # two words
    [line] = estimate_calls(
        "run", "http://h/v1#fake", requests, prices=table, ledger=tmp_path / "l"
    ).lines
    assert line.expected == pytest.approx(999 * 2 * 30e-6)


async def test_a_plan_in_flex_is_at_its_price(ask, tmp_path):
    table = tmp_path / "prices.json"
    row = {"prompt": 0.0, "completion": 30.0}
    table.write_text(json.dumps({"models": {"fake": row | {"flex": 0.5}, "other": row}}))
    flex = [ask("q", max_tokens=10, service_tier="flex")]
    for model, share in (("fake", 0.5), ("other", 1.0)):
        [line] = estimate_calls("run", f"http://h/v1#{model}", flex, prices=table).lines
        assert line.money == pytest.approx(share * 10 * 30e-6)
