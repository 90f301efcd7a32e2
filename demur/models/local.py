"""``hf:folder-or-repo``: a transformers model in this process (extra: ``hf``).

Text and image-text models, in batches, on the best available device. Greedy requests with the same settings share a
batch; a sampled one runs alone with its own seed, so that its reply does not depend on others. Log-probabilities are
those of the model's distribution before temperature and top-p, as servers report them.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from demur.core.errors import (
    CallError,
    DataError,
    ItemError,
    PermanentError,
    StorageError,
    UsageError,
    importing,
)
from demur.core.images import rgb
from demur.core.records import Request, Response, TokenLogprob, Usage
from demur.core.store import digest, seed_of
from demur.core.uris import read_image
from demur.models import wire
from demur.models.wire import Fault

_BATCH = 16
_DEFAULT_NEW = 512
"""Maximum tokens to generate if a request sets no ``max_tokens``."""
_EXTRA = frozenset({"top_k", "repetition_penalty", "chat_template_kwargs"})


class _Job(NamedTuple):
    request: Request
    done: asyncio.Future[str]


def weights_digest(folder: Path) -> str:
    """Digest of a model folder, 16 hex digits: whole small files; size, first and last megabyte of large ones."""
    parts = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")):
        size = path.stat().st_size
        sha = hashlib.sha256()
        with path.open("rb") as handle:
            sha.update(handle.read(1_000_000))
            if size > 2_000_000:
                handle.seek(-1_000_000, io.SEEK_END)
            sha.update(handle.read())
        parts.append([path.relative_to(folder).as_posix(), size, sha.hexdigest()])
    return digest(parts, 16)


def best_device() -> str:
    """``cuda``, ``mps`` or ``cpu``: the first that is available."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def choose_precision(device: str, stored: Any) -> Any:
    """The number format for inference: 32 bits on the CPU, where half precision is slow, and half precision on a GPU.

    Args:
        device: from `best_device`.
        stored: ``torch.dtype`` of the weights; None if the model's config does not say.

    Returns:
        On a GPU the stored half-precision format; for weights in 32 bits ``torch.bfloat16`` if the GPU has it, else
        ``torch.float16``.
    """
    import torch

    if device == "cpu":
        return torch.float32
    if stored in (torch.float16, torch.bfloat16):
        return stored
    return torch.bfloat16 if device == "cuda" and torch.cuda.is_bf16_supported() else torch.float16


def out_of_memory(error: BaseException) -> bool:
    """Whether a device ran out of memory: CUDA raises its own type; of MPS and the CPU only the message says it."""
    import torch

    signs = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in signs)
    )


class LocalBackend:
    """A transformers model. Created by `open_local`.

    Args:
        name: ``hf:`` and the folder or repository.
        model: with ``generate``.
        processor: a tokenizer, or a processor with one.
        images: whether the model takes images.
        image_root: folder that relative image paths start from.
        revision: of the weights.
    """

    def __init__(
        self,
        name: str,
        model: Any,
        processor: Any,
        *,
        images: bool,
        image_root: Path | None,
        revision: str,
    ) -> None:
        self.name, self.revision = name, revision
        self._model, self._processor, self._takes_images, self._root = (
            model,
            processor,
            images,
            image_root,
        )
        self._tokenizer = getattr(processor, "tokenizer", processor)
        self._tokenizer.padding_side = "left"
        if self._tokenizer.pad_token_id is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        text_config = model.config.get_text_config()
        self._window = int(getattr(text_config, "max_position_embeddings", 0) or 0)
        self._jobs: deque[_Job] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="demur-hf")

    # --- queue

    async def send(self, request: Request, timeout_s: float) -> str:
        """One attempt; the reply in chat-completion form.

        Raises:
            ItemError: too long for the model, too large for the memory, or an image that cannot be read.
            PermanentError: the model does not support the request (images, a JSON schema, an unknown option).
            Fault: no reply in time.
        """
        if request.json_schema is not None:
            raise PermanentError(
                f"{self.name} does not support JSON schemas", cure="serve it with vLLM or llama.cpp"
            )
        unknown = sorted(request.extra.keys() - _EXTRA)
        if unknown:
            raise PermanentError(
                f"{self.name} does not support {', '.join(unknown)}",
                cure=f"its extra options are {', '.join(sorted(_EXTRA))}",
            )
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._jobs.append(_Job(request, done))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._work())
        try:
            async with asyncio.timeout(timeout_s):
                return await done
        except TimeoutError as error:
            raise Fault(f"no reply within {timeout_s:g} s", kind="timeout") from error

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._jobs:
            await asyncio.sleep(0)  # callers that are about to send join this batch
            batch = self._next_batch()
            if not batch:
                continue
            results = await loop.run_in_executor(
                self._thread, self._answer_batch, [job.request for job in batch]
            )
            for job, result in zip(batch, results, strict=True):
                if job.done.done():
                    continue
                if isinstance(result, CallError):
                    job.done.set_exception(result)
                else:
                    job.done.set_result(result)

    def _next_batch(self) -> list[_Job]:
        batch: list[_Job] = []
        other_jobs: list[_Job] = []
        while self._jobs and len(batch) < _BATCH:
            job = self._jobs.popleft()
            if job.done.done():
                continue  # cancelled
            if not batch or (
                _batch_settings(job.request) == _batch_settings(batch[0].request)
                and not batch[0].request.temperature
            ):
                batch.append(job)
            else:
                other_jobs.append(job)
        self._jobs.extendleft(reversed(other_jobs))
        return batch

    # --- in the thread

    def _answer_batch(self, requests: list[Request]) -> list[str | CallError]:
        """Replies to a batch; an error in place of a reply that cannot be had."""
        try:
            return list(self._generate(requests))
        except CallError as error:
            failure: CallError = error
            full = False
        except Exception as error:
            full = out_of_memory(error)
            failure = (
                ItemError(
                    "it does not fit in the device's memory",
                    cure="show less evidence, or smaller images",
                )
                if full
                else ItemError(
                    f"{self.name}: {type(error).__name__}: {error}",
                    cure="check the model with this input",
                )
            )
        # outside the handlers: the traceback, which holds the failed batch's tensors, is gone now
        if len(requests) == 1:
            return [failure]
        if not full:
            return [reply for request in requests for reply in self._answer_batch([request])]
        if self._model.device.type == "cuda":
            import torch

            torch.cuda.empty_cache()
        half = len(requests) // 2
        return self._answer_batch(requests[:half]) + self._answer_batch(requests[half:])

    def _make_prompt(self, request: Request) -> tuple[str, list[Any]]:
        """(the prompt's text, its images)."""
        images: list[Any] = []
        turns = []
        for message in request.messages:
            parts: list[dict[str, Any]] = []
            for part in message.parts:
                if part.type == "text":
                    parts.append({"type": "text", "text": part.text})
                else:
                    if not self._takes_images:
                        raise PermanentError(
                            f"{self.name} does not take images", cure="name a vision-language model"
                        )
                    images.append(self._open_image(part.image))
                    parts.append({"type": "image"})
            prompt_text = "".join(p.get("text", "") for p in parts)
            turns.append(
                {"role": message.role, "content": parts if self._takes_images else prompt_text}
            )
        options = request.extra.get("chat_template_kwargs") or {}
        if getattr(self._processor, "chat_template", None):
            text = self._processor.apply_chat_template(
                turns, add_generation_prompt=True, tokenize=False, **options
            )
        else:  # a base model has no chat template: join the turns
            text = (
                "\n\n".join(t["content"] if isinstance(t["content"], str) else "" for t in turns)
                + "\n\n"
            )
        return str(text), images

    def _open_image(self, ref: Any) -> Any:
        try:
            return rgb(read_image(ref, self._root), ref.uri)
        except (StorageError, DataError) as error:
            raise ItemError(f"an image cannot be read: {error}", cure="fetch it again") from error

    def _generate(self, requests: list[Request]) -> list[str]:
        import torch

        first = requests[0]
        inputs = self._inputs(requests)
        with_logprobs = first.logprobs or first.top_logprobs is not None
        options = self._generation(first, inputs)
        if first.temperature:
            is_own = first.draw == 0 and first.seed is not None
            torch.manual_seed(first.seed if is_own else seed_of(first.seed, first.draw))
        with torch.inference_mode():
            out = self._model.generate(
                **inputs,
                **options,
                pad_token_id=self._tokenizer.pad_token_id,
                return_dict_in_generate=True,
                output_logits=with_logprobs,
            )
        length = int(inputs["input_ids"].shape[1])
        replies = []
        for row, request in enumerate(requests):
            text, tokens, reason = self._reply_text(out.sequences[row, length:].tolist(), request)
            logprobs = (
                self._logprobs(out.logits, row, tokens, request.top_logprobs or 0)
                if with_logprobs
                else ()
            )
            usage = Usage(prompt=int(inputs["attention_mask"][row].sum()), completion=len(tokens))
            reply = Response(text=text, logprobs=logprobs, usage=usage, finish_reason=reason)
            replies.append(wire.reply_of(reply, self.name))
        return replies

    def _inputs(self, requests: list[Request]) -> Any:
        """The batch's tensors on the model's device."""
        prompts = [self._make_prompt(request) for request in requests]
        texts = [text for text, _ in prompts]
        images = [group for _, group in prompts]
        inputs = (
            self._processor(
                text=texts,
                images=images if any(images) else None,
                padding=True,
                return_tensors="pt",
            )
            if self._takes_images
            else self._processor(texts, padding=True, return_tensors="pt", add_special_tokens=False)
        )
        # pixels in the model's number format; token ids stay integers
        return inputs.to(
            self._model.device, **({"dtype": self._model.dtype} if self._takes_images else {})
        )

    def _generation(self, first: Request, inputs: Any) -> dict[str, Any]:
        """How a batch is generated, as options of transformers; all its requests ask for the same.

        Raises:
            ItemError: prompt and answer do not fit in the model's window.
        """
        new = first.max_tokens or _DEFAULT_NEW
        if self._window and int(inputs["input_ids"].shape[1]) + new > self._window:
            longest = int(inputs["attention_mask"].sum(dim=1).max())
            raise ItemError(
                f"the context is too long: {longest} tokens and {new} for the answer, the model takes {self._window}",
                cure="show less evidence, or allow fewer tokens in the answer",
            )
        options: dict[str, Any] = {"max_new_tokens": new, "do_sample": bool(first.temperature)}
        if first.temperature:
            options |= {
                "temperature": first.temperature,
                "top_p": first.top_p or 1.0,
                "top_k": first.extra.get("top_k", 0),
            }
        if first.extra.get("repetition_penalty"):
            options["repetition_penalty"] = float(first.extra["repetition_penalty"])
        if first.stop:
            options |= {"stop_strings": list(first.stop), "tokenizer": self._tokenizer}
        return options

    def _reply_text(self, tokens: list[int], request: Request) -> tuple[str, list[int], str]:
        """(the reply up to its end or a stop string, its tokens, why it ended)."""
        ends = self._model.generation_config.eos_token_id
        end_ids = set(ends if isinstance(ends, list) else [ends]) | {self._tokenizer.eos_token_id}
        stop = next((i for i, token in enumerate(tokens) if token in end_ids), None)
        reply_tokens = tokens[:stop]
        text = self._tokenizer.decode(reply_tokens, skip_special_tokens=True)
        cut = min((text.find(s) for s in request.stop if s in text), default=-1)
        if cut >= 0:
            text = text[:cut]
        return text, reply_tokens, "length" if stop is None and cut < 0 else "stop"

    def _logprobs(
        self, logits: tuple[Any, ...], row: int, tokens: list[int], rivals: int
    ) -> tuple[TokenLogprob, ...]:
        """For each generated token; ``logits`` has one (batch, vocabulary) array per step."""
        logprobs = []
        for step, token in enumerate(tokens):
            scores = logits[step][row].float().log_softmax(dim=-1)
            best = scores.topk(rivals) if rivals else None
            top = (
                tuple(
                    (self._tokenizer.decode([i]), float(v))
                    for v, i in zip(*map(lambda t: t.tolist(), best), strict=True)
                )
                if best is not None
                else ()
            )
            logprobs.append(
                TokenLogprob(
                    token=self._tokenizer.decode([token]), logprob=float(scores[token]), top=top
                )
            )
        return tuple(logprobs)

    async def close(self) -> None:
        """Stop the thread and drop the requests that wait."""
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
        self._thread.shutdown(wait=True, cancel_futures=True)


def _batch_settings(request: Request) -> str:
    """The settings that requests of one batch share, as text."""
    return json.dumps(
        [
            request.temperature,
            request.top_p,
            request.max_tokens,
            request.stop,
            request.logprobs,
            request.top_logprobs,
            request.extra,
            any(p.type == "image" for m in request.messages for p in m.parts),
        ],
        sort_keys=True,
    )


def open_local(name: str, image_root: Path | None) -> LocalBackend:
    """Load a model from a folder or a repository (``repo@revision``), without running remote code.

    Raises:
        MissingExtra: transformers or torch is not installed.
        UsageError: there is no such model, or it cannot be loaded.
    """
    from demur.core.vision_ops import ensure_torchvision

    with importing(f"hf:{name}", extra="hf", module="transformers and torch", broken=True):
        device = best_device()
        ensure_torchvision()
        import transformers
    folder = Path(name)
    where, _, revision = (name, "", "") if folder.is_dir() else name.partition("@")
    options: dict[str, Any] = {"trust_remote_code": False} | (
        {"revision": revision} if revision else {}
    )
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        config = transformers.AutoConfig.from_pretrained(where, **options)
        images = getattr(config, "vision_config", None) is not None
        kind: Any = (
            transformers.AutoModelForImageTextToText
            if images
            else transformers.AutoModelForCausalLM
        )
        reader: Any = transformers.AutoProcessor if images else transformers.AutoTokenizer
        processor = reader.from_pretrained(where, **options)
        stored = getattr(config, "dtype", None) or getattr(config.get_text_config(), "dtype", None)
        model = kind.from_pretrained(where, dtype=choose_precision(device, stored), **options)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise UsageError(
            f"the model cannot be loaded: {' '.join(str(error).split())[:300]}",
            item=f"hf:{name}",
            cure="check the folder or the repository's name",
        ) from error
    model.to(device).eval()
    revision_known = (
        weights_digest(folder)
        if folder.is_dir()
        else str(getattr(config, "_commit_hash", "") or revision)
    )
    return LocalBackend(
        f"hf:{where}",
        model,
        processor,
        images=images,
        image_root=image_root,
        revision=revision_known,
    )
