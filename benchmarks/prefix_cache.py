"""The fake endpoint with an account of a server's automatic prefix cache."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from demur.testing import FakeEndpoint


class PrefixCache:
    """Simulates a server's automatic prefix cache.

    Prompts are split into blocks of ``block`` tokens; the key of a block is its text and all text before it. The cache
    holds ``capacity`` blocks and drops the least recently used first. Four characters count as one token, an image as
    ``image_tokens``.
    """

    def __init__(self, capacity: int = 2048, block: int = 16, image_tokens: int = 256) -> None:
        self.capacity, self.block, self.image_tokens = capacity, block, image_tokens
        self.prompt = 0
        self.cached = 0
        self._blocks: OrderedDict[str, None] = OrderedDict()

    def ask(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
        """(prompt tokens, cached tokens among them) of a prompt; adds it to the cache."""
        text = ""
        for message in messages:
            text += f"<{message['role']}>"
            content = message["content"]
            parts: list[dict[str, Any]] = (
                [{"text": content}] if isinstance(content, str) else content
            )
            for part in parts:
                if "image_url" in part:
                    sha = hashlib.sha256(part["image_url"]["url"].encode()).hexdigest()
                    text += (sha * (self.image_tokens * 4 // 64 + 1))[: self.image_tokens * 4]
                else:
                    text += part["text"]
        size = self.block * 4
        chain, hits, missed = hashlib.sha256(), 0, False
        for start in range(0, len(text) - size + 1, size):
            chain.update(text[start : start + size].encode())
            name = chain.hexdigest()[:24]
            if not missed and name in self._blocks:
                self._blocks.move_to_end(name)
                hits += 1
            else:
                missed = True
                self._blocks[name] = None
                if len(self._blocks) > self.capacity:
                    self._blocks.popitem(last=False)
        prompt, cached = -(-len(text) // 4), hits * self.block
        self.prompt += prompt
        self.cached += cached
        return prompt, cached

    @property
    def hit_rate(self) -> float:
        """Cached tokens over prompt tokens, in [0, 1]."""
        return self.cached / self.prompt if self.prompt else 0.0


class CachingEndpoint(FakeEndpoint):
    """A fake endpoint that tells what a prefix cache of so many blocks would have held."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.prefix = PrefixCache(blocks)

    def prompt_tokens(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
        """What the cache holds of a prompt."""
        return self.prefix.ask(messages)
