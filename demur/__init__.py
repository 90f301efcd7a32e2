"""demur: measure whether a vision-language model or a RAG system answers, deflects, or makes things up."""

__version__ = "0.1.0"
