"""`gpusim completion`: command lines completed in a shell, by argcomplete, which asks `gpusim` itself at each tab."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable
from importlib import resources
from typing import Any

_PROGRAMS = "program", "what", "a", "b"
_GPUS = "gpu", "gpu_a", "gpu_b", "next", "base", "first", "second", "machines", "name"
"""Arguments that are programs, and GPUs."""


def execute(options: argparse.Namespace) -> None:
    import argcomplete

    print(argcomplete.shellcode(["gpusim"], shell=options.shell))


def answer(make_parser: Callable[[str | None], argparse.ArgumentParser], **how: Any) -> None:
    """Tell a shell how a command line may go on, and end. make_parser: that of `gpusim.cli`. how: as for
    `argcomplete.autocomplete`."""
    import argcomplete

    words = os.environ["COMP_LINE"].split()
    parser = make_parser(words[1] if len(words) > 1 else None)
    complete: Any = _words  # argcomplete's type for it is a class, though it calls what it is given
    argcomplete.autocomplete(parser, always_complete_options=False, default_completer=complete, **how)


def _words(prefix: str, action: argparse.Action, **_: Any) -> Iterable[str]:
    """What an argument without choices can be: names of programs, of GPUs and keys where these are asked for, files."""
    from argcomplete import FilesCompleter

    from gpusim.config import describe_keys, shipped_names

    names: list[str] = []
    if action.dest in _PROGRAMS:
        # From the index of images: importing the registry would make a shell wait.
        index = json.loads(resources.files("programs").joinpath("images/index.json").read_bytes())
        names = sorted(name for each in index["images"] for name in each["variants"])
    elif action.dest in _GPUS:
        names = list(shipped_names())
    elif str(action.metavar).startswith("KEY="):
        names = [f"{key}=" for key in describe_keys()]
    return [*names, *FilesCompleter()(prefix)]
