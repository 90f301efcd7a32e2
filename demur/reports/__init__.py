"""Tables, figures, the terminal summary and the HTML report (`demur.report` writes one).

A report is a pure function of files (a release folder and run folders): the same files give the same bytes.
"""
