"""The verb `demur suite`: an entry point of ``demur.verbs``, as thin as those in `demur.cli`.

``demur --help`` imports the file, so that it imports nothing heavy.
"""
