"""`gpusim completion`: command lines completed in a shell, by argcomplete, which asks `gpusim` itself at each tab."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module, resources
from typing import Any

Words = Callable[..., Iterable[str]]


def execute(options: argparse.Namespace) -> None:
    import argcomplete

    print(argcomplete.shellcode(["gpusim"], shell=options.shell))


def answer(make_parser: Callable[[str | None], argparse.ArgumentParser], **how: Any) -> None:
    """Tell a shell how a command line may go on, and end. make_parser: that of `gpusim.cli`. how: as for
    `argcomplete.autocomplete`."""
    import argcomplete

    words = os.environ["COMP_LINE"].split()
    parser = make_parser(words[1] if len(words) > 1 else None)
    _mark(parser, _known(), "")
    argcomplete.autocomplete(parser, always_complete_options=False, **how)


def _mark(parser: argparse.ArgumentParser, known: Mapping[str, Words], path: str) -> None:
    """Say what the arguments of a command and of its subcommands can be."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, each in action.choices.items():
                _mark(each, known, f"{path}{name} ")
        elif not action.choices and action.nargs != 0:
            names = (f"{path}{action.dest}", action.dest, str(action.metavar))
            found = next((known[name] for name in names if name in known), None)
            if found is not None:
                action.completer = found  # type: ignore[attr-defined]  # where argcomplete looks


def _known() -> dict[str, Words]:
    """Return completers of arguments: by command and name where that tells it, else by name or placeholder."""
    from argcomplete import DirectoriesCompleter

    kernels = (".py", ".cu", ".ptx", ".cubin", ".gpuprog")
    programs = _words(_programs, *kernels)
    gpus = _words(lambda: import_module("gpusim.config").shipped_names(), ".toml")
    assigned = _words(lambda: [f"{key}=" for key in _keys()])
    return {
        **dict.fromkeys(("program", "what", "diff a", "diff b"), programs),
        **dict.fromkeys(("gpu", "gpu_a", "gpu_b", "next", "base", "first", "second", "machines"), gpus),
        **dict.fromkeys(("config show name", "config check name"), gpus),
        **dict.fromkeys(("KEY=VALUE", "KEY=VALUES"), assigned),
        **dict.fromkeys(("DIR", "FOLDER"), DirectoriesCompleter()),
        "FILE.py": _words(tuple, ".py"),
        "FILE.toml": _words(tuple, ".toml"),
        "sensitivity keys": _words(_keys),
        "config keys section": _words(lambda: [key.partition(".")[0] for key in _keys()]),
        "collective node": _words(lambda: import_module("gpusim.node").shipped_nodes(), ".toml"),
        "TOOLS": _words(lambda: [name for name in import_module("gpusim.host.options").CHECKS if name != "memcheck"]),
        "MODE": _words(lambda: import_module("gpusim.host.options").MODES),
        "schema words": _words(lambda: "-".join(import_module("gpusim.cli.schema").commands()).split("-")),
    }


def _programs() -> Iterable[str]:
    """Names of the bundled programs, from the index of images: importing the registry would make a shell wait."""
    index = json.loads(resources.files("programs").joinpath("images/index.json").read_bytes())
    return sorted(name for each in index["images"] for name in each["variants"])


def _keys() -> Iterable[str]:
    from gpusim.config import describe_keys

    return describe_keys()


def _words(words: Callable[[], Iterable[str]], *endings: str) -> Words:
    """One of these words, or a file whose name ends so. words: asked where they are, as a shell waits for it."""
    from argcomplete import FilesCompleter

    files = FilesCompleter(endings) if endings else lambda _: ()
    return lambda prefix, **_: [*dict.fromkeys(words()), *files(prefix)]
