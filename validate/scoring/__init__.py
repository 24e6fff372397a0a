"""Scores of a comparison beyond a table of cycles: counters, stall reasons, and what was accepted.

`counters.py` and `stalls.py` say what is scored and with which targets; `text.py` shows it; `accepted.py`
keeps the score that the tests hold the model to; `documents.py` writes it into `docs/`, and has the command.
"""
