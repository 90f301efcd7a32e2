"""Models in this process and through any-llm: tiny ones of random weights, the real code paths."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
import tiny_models
from errors import raises
from tiny_models import TEMPLATE, TEXT_CONFIG, seeded, tokenizer

from demur.core.errors import ItemError, PermanentError, UsageError
from demur.models import ModelOptions, Retry, complete_all, open_model
from demur.models.estimate import estimate_calls
from demur.testing import FakeEndpoint, check_model

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def text_model(tmp_path_factory):
    return tiny_models.text_model(tmp_path_factory.mktemp("models") / "tiny-text")


@pytest.fixture(scope="module")
def vision_model(tmp_path_factory):
    return tiny_models.vision_model(tmp_path_factory.mktemp("models") / "tiny-vlm")


@pytest.mark.slow
async def test_a_text_model_answers_in_batches_as_it_does_alone(text_model, ask, tmp_path):
    async with open_model(f"hf:{text_model}", ModelOptions(ledger=tmp_path / "l")) as model:
        await check_model(model)
        assert model.id == "hf:tiny-text"
        requests = [
            ask("word " * n, model=model.id, temperature=0.0, max_tokens=6, item=str(n))
            for n in range(1, 12)
        ]
        together = {q.item: a async for q, a in complete_all(model, requests)}
        alone = {q.item: await model.complete(q.model_copy(update={"draw": 1})) for q in requests}
        assert {k: a.text for k, a in together.items()} == {k: a.text for k, a in alone.items()}
        assert all(a.usage.completion <= 6 and a.usage.prompt > 5 for a in together.values())
    text = f"hf:{text_model}"
    assert estimate_calls("gate", text, requests, ledger=tmp_path / "l").lines[0].cached == len(
        requests
    )  # same weights, same key


async def test_log_probabilities_are_those_of_the_model(text_model, ask):
    """Against a forward pass of the same tokens."""
    import torch
    import transformers

    async with open_model(f"hf:{text_model}") as model:
        request = ask(
            "which animal?", model=model.id, temperature=0.0, max_tokens=5, top_logprobs=3
        )
        reply = await model.complete(request)
    words = transformers.AutoTokenizer.from_pretrained(text_model)
    network = transformers.AutoModelForCausalLM.from_pretrained(text_model)
    prompt = words.apply_chat_template(
        [{"role": "user", "content": "which animal?"}], add_generation_prompt=True, tokenize=False
    )
    ids = words(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
    for step in reply.logprobs:
        with torch.inference_mode():
            scores = network(ids).logits[0, -1].log_softmax(dim=-1)
        best = int(scores.argmax())
        assert words.decode([best]) == step.token
        assert step.logprob == pytest.approx(float(scores[best]), abs=1e-4)
        assert [v for _, v in step.top] == pytest.approx(scores.topk(3).values.tolist(), abs=1e-4)
        ids = torch.cat([ids, torch.tensor([[best]])], dim=1)
    assert len(reply.logprobs) == reply.usage.completion


async def test_draws_are_apart_and_repeatable(text_model, ask):
    async with open_model(f"hf:{text_model}") as model:
        requests = [
            ask("go", model=model.id, temperature=1.0, max_tokens=8, seed=1, draw=n)
            for n in range(4)
        ]
        first = await asyncio.gather(*(model.complete(r) for r in requests))
        again = await asyncio.gather(*(model.complete(r) for r in reversed(requests)))
    assert len({a.text for a in first}) == 4
    assert [a.text for a in first] == [a.text for a in reversed(again)]


async def test_a_vision_model_sees_its_images(vision_model, ask, picture, tmp_path):
    red, blue = picture("red"), picture("blue")
    async with open_model(f"hf:{vision_model}", ModelOptions(image_root=tmp_path)) as model:
        options = {"model": model.id, "temperature": 0.0, "max_tokens": 4, "top_logprobs": 1}
        requests = [
            ask("what is it?", item="text", **options),
            ask(red, "what is it?", item="red", **options),
            ask(blue, "what is it?", item="blue", **options),
            ask(red, "and", blue, "what are they?", item="both", **options),
        ]
        found = {q.item: a async for q, a in complete_all(model, requests)}
    assert not [a.error for a in found.values() if a.error]
    assert found["red"].logprobs != found["blue"].logprobs  # the pixels reach the model
    assert found["both"].usage.prompt > found["red"].usage.prompt > found["text"].usage.prompt


@pytest.fixture(scope="module")
def llava_model(tmp_path_factory):
    """A LLaVA of random weights: another family, whose images are dense arrays of one size."""
    transformers = seeded(images=True)
    words = tokenizer(extra_special_tokens={"image_token": "<|image_pad|>"})
    config = transformers.LlavaConfig(
        text_config={
            "model_type": "qwen2",
            "vocab_size": len(words),
            "max_position_embeddings": 512,
            "eos_token_id": words.eos_token_id,
            "pad_token_id": words.pad_token_id,
            **TEXT_CONFIG,
        },
        vision_config={
            "model_type": "clip_vision_model",
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 28,
            "patch_size": 14,
        },
        image_token_id=words.convert_tokens_to_ids("<|image_pad|>"),
        image_seq_length=4,
    )
    folder = tmp_path_factory.mktemp("models") / "tiny-llava"
    transformers.LlavaForConditionalGeneration(config).save_pretrained(folder)
    size = {"height": 28, "width": 28}
    transformers.LlavaProcessor(
        image_processor=transformers.CLIPImageProcessor(size=size, crop_size=size),
        tokenizer=words,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    ).save_pretrained(folder)
    return folder


def watched(model, monkeypatch, most=None):
    """Sizes of the batches that a client's model is given, as they come; more than ``most`` do not fit the memory."""
    import torch

    network = model._fleet.slots[0].backend._model
    sizes, generate = [], network.generate

    def counted(*args, **options):
        sizes.append(len(options["input_ids"]))
        if most is not None and sizes[-1] > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return generate(*args, **options)

    monkeypatch.setattr(network, "generate", counted)
    return sizes


async def test_a_batch_is_one_pass_through_the_network(text_model, ask, monkeypatch):
    async with open_model(f"hf:{text_model}", ModelOptions(concurrency=32)) as model:
        sizes = watched(model, monkeypatch)
        requests = [
            ask(f"question {n}", model=model.id, temperature=0.0, max_tokens=2) for n in range(32)
        ]
        assert (
            len([a async for _, a in complete_all(model, requests) if a.text or a.finish_reason])
            == 32
        )
    assert sum(sizes) == 32
    assert len(sizes) <= 8
    assert max(sizes) == 16


async def test_a_batch_that_does_not_fit_the_memory_is_halved(text_model, ask, monkeypatch):
    async with open_model(f"hf:{text_model}", ModelOptions(concurrency=16)) as model:
        requests = [
            ask("word " * n, model=model.id, temperature=0.0, max_tokens=3, item=str(n))
            for n in range(1, 13)
        ]
        whole = {q.item: a.text async for q, a in complete_all(model, requests)}
        sizes = watched(model, monkeypatch, most=3)
        assert {q.item: a.text async for q, a in complete_all(model, requests)} == whole
        assert sum(n for n in sizes if n <= 3) == 12
        assert all(after == before // 2 for before, after in pairwise(sizes) if before > 3)
        watched(model, monkeypatch, most=0)
        with raises(ItemError, item=requests[0].item):
            await model.complete(requests[0])


@pytest.mark.parametrize("kind", ["vision_model", "llava_model"])
async def test_a_vision_model_answers_in_batches_as_it_does_alone(
    kind, request, ask, picture, tmp_path, monkeypatch
):
    folder = request.getfixturevalue(kind)
    async with open_model(
        f"hf:{folder}", ModelOptions(image_root=tmp_path, concurrency=8)
    ) as model:
        options = {"model": model.id, "temperature": 0.0, "max_tokens": 5, "top_logprobs": 2}
        asks = [ask(picture(f"p{n}"), "word " * (n + 1), item=str(n), **options) for n in range(8)]
        sizes = watched(model, monkeypatch)
        together = {q.item: a async for q, a in complete_all(model, asks)}
        assert max(sizes) > 1
        for one in asks:
            alone = await model.complete(one)
            assert together[one.item].text == alone.text
            assert together[one.item].usage == alone.usage
            assert [t.logprob for t in together[one.item].logprobs] == pytest.approx(
                [t.logprob for t in alone.logprobs], abs=1e-3
            )


async def test_log_probabilities_of_a_vision_model_are_those_of_a_forward_pass(
    llava_model, ask, picture, tmp_path
):
    import torch
    import transformers
    from PIL import Image

    async with open_model(f"hf:{llava_model}", ModelOptions(image_root=tmp_path)) as model:
        options = {"model": model.id, "temperature": 0.0, "max_tokens": 4, "top_logprobs": 1}
        reply = await model.complete(ask(picture("red"), "which animal?", **options))
    reader = transformers.AutoProcessor.from_pretrained(llava_model)
    network = transformers.AutoModelForImageTextToText.from_pretrained(llava_model)
    turns = [
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "which animal?"}]}
    ]
    prompt = reader.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    given = reader(
        text=[prompt], images=[Image.open(tmp_path / "red.png").convert("RGB")], return_tensors="pt"
    )
    ids, seen = given["input_ids"], given["pixel_values"]
    assert reply.logprobs
    for step in reply.logprobs:
        with torch.inference_mode():
            scores = network(input_ids=ids, pixel_values=seen).logits[0, -1].log_softmax(dim=-1)
        best = int(scores.argmax())
        assert step.logprob == pytest.approx(float(scores[best]), abs=1e-4)
        ids = torch.cat([ids, torch.tensor([[best]])], dim=1)


@pytest.mark.parametrize(
    ("cuda", "mps", "device"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")]
)
def test_the_best_device_is_picked(monkeypatch, cuda, mps, device):
    torch = pytest.importorskip("torch")
    from demur.models.local import best_device, choose_precision

    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert best_device() == device
    full = {"cuda": torch.bfloat16, "mps": torch.float16, "cpu": torch.float32}[device]
    assert choose_precision(device, torch.float32) is choose_precision(device, None) is full
    assert choose_precision(device, torch.float16) is (
        torch.float32 if device == "cpu" else torch.float16
    )


def test_every_devices_way_to_say_that_its_memory_is_full_is_understood():
    torch = pytest.importorskip("torch")
    from demur.models.local import out_of_memory

    assert out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"))
    assert out_of_memory(RuntimeError("MPS backend out of memory (MPS allocated: 8 GB)"))
    assert out_of_memory(
        RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate")
    )
    assert not out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


@pytest.mark.parametrize("kind", ["text_model", "vision_model", "llava_model"])
async def test_half_precision_answers_too(kind, request, ask, picture, tmp_path, monkeypatch):
    """As on a GPU: weights and pixels in bfloat16."""
    import torch

    from demur.models import local

    monkeypatch.setattr(local, "choose_precision", lambda device, stored: torch.bfloat16)
    async with open_model(
        f"hf:{request.getfixturevalue(kind)}", ModelOptions(image_root=tmp_path)
    ) as model:
        assert model._fleet.slots[0].backend._model.dtype is torch.bfloat16
        parts = ["what is it?"] if kind == "text_model" else [picture("red"), "what is it?"]
        reply = await model.complete(
            ask(*parts, model=model.id, temperature=0.0, max_tokens=3, top_logprobs=1)
        )
    assert all(t.logprob <= 0 for t in reply.logprobs)
    assert reply.logprobs


async def test_what_it_cannot_do_it_says(text_model, ask, picture, tmp_path):
    async with open_model(f"hf:{text_model}", ModelOptions(image_root=tmp_path)) as model:
        long, good = ask("long " * 900, model=model.id), ask("fine", model=model.id, max_tokens=3)
        replies = await asyncio.gather(
            model.complete(long), model.complete(good), return_exceptions=True
        )
        assert isinstance(replies[0], ItemError)
        assert "512" in str(replies[0])
        assert replies[1].text
        for request, said in (
            (ask("q", picture("a"), model=model.id), "images"),
            (ask("q", model=model.id, json_schema={"type": "object"}), "JSON schema"),
            (ask("q", model=model.id, extra={"min_p": 0.1}), "min_p"),
        ):
            with pytest.raises(PermanentError, match=said):
                await model.complete(request)
    with raises(UsageError, item=f"hf:{tmp_path}"):
        async with open_model(f"hf:{tmp_path}"):
            pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "ends", "said"),
    [
        *(
            (f, None, "")
            for f in ("429", "429-after", "500", "502", "503", "reset", "reset-early", "truncated")
        ),
        *(
            (f, None, "")
            for f in (
                "invalid",
                "empty",
                "blank",
                "html",
                "stall",
                "duplicate",
                "drip",
                "injection",
            )
        ),
        ("401", PermanentError, "set OPENAI_API_KEY"),
        ("404", PermanentError, "'fake'"),
        ("quota", PermanentError, "quota|credit|top"),
        ("text-only", PermanentError, "images"),
        ("too-long", ItemError, "evidence"),
        ("413", ItemError, "images"),
        ("filter", ItemError, "filter"),
    ],
)
async def test_any_llm_errors_are_told_apart(ask, monkeypatch, fault, ends, said):
    """Through the real package: what passes is tried again by us, what does not stops at once with its cure."""
    pytest.importorskip("any_llm")
    timeout_s = 2.0 if fault == "stall" else 120.0
    async with FakeEndpoint(fault, stall_s=600) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-some-key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        async with open_model(
            "any-llm:openai/fake", ModelOptions(retry=Retry(backoff_s=0.001, timeout_s=timeout_s))
        ) as model:
            call = model.complete(ask("q", model=model.id, item="it", max_tokens=5))
            if ends is None:
                assert (await call).text
                tried = 1 + (fault not in ("duplicate", "drip", "injection"))
                assert server.requests == tried or (
                    fault == "stall" and server.requests > tried
                )  # a busy machine
            else:
                with pytest.raises(ends, match=said) as caught:
                    await call
                assert caught.value.item == "it"
                assert server.requests == 1


async def test_any_llm_speaks_for_other_providers(ask, tmp_path, monkeypatch, picture):
    pytest.importorskip("any_llm")
    async with FakeEndpoint("500,429,ok", key="sk-other") as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        async with open_model(
            "any-llm:openai/fake",
            ModelOptions(ledger=tmp_path / "l", image_root=tmp_path, retry=Retry(backoff_s=0.01)),
        ) as model:
            request = ask(
                "q", picture("a"), model=model.id, temperature=0.0, top_logprobs=2, max_tokens=9
            )
            reply = await model.complete(request)
            assert server.requests == 3  # our retries, and none of the SDK's
            assert reply.text.startswith("answer ")
            assert reply.logprobs[0].top
            assert reply.usage.prompt > 0
            assert (await model.complete(request)).cached
        monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-key")
        async with open_model("any-llm:openai/fake") as model:
            with pytest.raises(PermanentError, match="OPENAI_API_KEY") as caught:
                await model.complete(ask("q", model=model.id))
            assert "sk-wrong-key" not in str(caught.value)
    with pytest.raises(UsageError, match="nobody"):
        async with open_model("any-llm:nobody/fake"):
            pass
