"""Published recipes for retrieval, source by source: what ``preset`` in a recipe fills in where it leaves keys out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_CUT = {
    "chunk": "250:32",
    "tokenizer": "bert-uncased",
    "visual": 0,
    "lexical": 0,
    "negatives": "mined",
}
"""Articles are cut into passages of 250 of Contriever's tokens that share 32; the sources' evidence is text."""
_BY_TITLE = {
    **_CUT,
    "modes": ["image->title", "image->title+summary", "text->text"],
    "pages": 10,
    "text": 12,
}
"""Image to text: pages by title, or by title and summary, whichever finds gold more often."""

PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "vlm-deflectionbench": {
        "infoseek": _BY_TITLE,
        "viquae": _BY_TITLE,
        "evqa": {**_CUT, "modes": ["image->first-image", "text->text"], "pages": 5, "text": 12},
        "mrag": {
            "modes": ["image->image"],
            "text": 0,
            "lexical": 0,
            "visual": 20,
            "negatives": "mined",
            "query_images": True,
        },
        "webqa": {"negatives": "native"},
        "mmdocrag": {"negatives": "native"},
    },
}
"""Preset -> source -> keys of ``retrieval``.

``vlm-deflectionbench``: appendix H of VLM-DeflectionBench. InfoSeek and ViQuAE find ten pages by the image and their
text, Encyclopedic-VQA five by their first image; passages of those pages are ranked by the question. MRAG-Bench takes
the twenty images nearest to the query image that are not gold, from its own pictures and the other questions' (equation
3). WebQA and MMDocRAG ship their negatives. Encoders are the recipe's choice (the paper: EVA-CLIP-18B and Contriever).
How many text distractors are mined the paper does not say: twelve, about what its Table 3 counts per sample.
"""
