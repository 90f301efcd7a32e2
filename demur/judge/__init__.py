"""Verdicts and what follows from them.

``local`` grades answers without a model, ``parse`` reads the replies of a model that grades, ``official`` holds the
sources' own metrics, ``measures`` turns verdicts into numbers that can be doubted.
"""
