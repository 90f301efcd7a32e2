"""The fake endpoint as a command: wrong arguments are one line."""

from __future__ import annotations

import pytest

from demur.testing.endpoint import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--faults", "bogus"], "'bogus'"),
        (["--faults", "429=200%"], "100 %"),
        (["--faults", "reset=-10%"], "negative"),
        (["--faults", "nan%"], "negative"),
        (["--port", "70000"], "choose another --port"),
    ],
)
def test_a_wrong_argument_is_one_line(words, said, capsys):
    try:
        code = main(words)
    except SystemExit as exit_:
        code = exit_.code
    lines = capsys.readouterr().err.splitlines()
    assert code in (1, 2)
    assert said in lines[-1]
    assert "Traceback" not in "".join(lines)
