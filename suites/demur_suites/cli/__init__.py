"""The verbs `demur suite` and `demur reasoning`: entry points of ``demur.verbs``, as thin as those in `demur.cli`.

``demur --help`` imports both files, so that they import nothing heavy.
"""
