"""`gpusim completion`: a script that completes command lines in a shell.

shtab makes it of the parser; the words that arguments can be are put into it, so that a completion starts no Python.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from gpusim.cli.options import add_command
from gpusim.cli.parser import EXIT_OK

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = """\
where it goes, for new shells:
  gpusim completion bash > ~/.local/share/bash-completion/completions/gpusim
  gpusim completion zsh > "${fpath[1]}/_gpusim"
  gpusim completion fish > ~/.config/fish/completions/gpusim.fish
for this shell alone:
  eval "$(gpusim completion bash)"
  eval "$(gpusim completion zsh)"
  eval (gpusim completion fish | string collect)

Bash finds the file where the package bash-completion is installed. After an update of gpusim, write it again.
"""
_BASH = """
# Bash cuts words at = and :, which are part of KEY=VALUE and FILE.py:KERNEL. They are joined again, but for an option
# and its value, which become two words.
_gpusim() {
  local -a words
  local word n=-1 joins=
  for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    if [[ $word == [=:] && n -ge 0 ]]; then
      if [[ $word == = && ${words[n]} == --* ]]; then words[++n]=; else words[n]+=$word; fi
      joins=1
    elif [[ -n $joins ]]; then
      words[n]+=$word joins=
    else
      words[++n]=$word
    fi
  done
  local -a COMP_WORDS=("${words[@]}")
  local COMP_CWORD=$n
  _shtab_gpusim
  if [[ ${#COMPREPLY[@]} -eq 1 ]]; then
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
    [[ -d ${COMPREPLY[0]} ]] && compopt -o filenames 2>/dev/null
  fi
  word=${words[n]}
  [[ $word == *[=:]* ]] && COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*[=:]}"}"}")
  return 0
}
complete -o bashdefault -F _gpusim gpusim
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "print a script that completes command lines in a shell"
    parser = add_command(commands, "completion", summary, EXAMPLES, execute)
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def execute(options: argparse.Namespace) -> int:
    import shtab

    from gpusim.cli import make_parser

    parser = make_parser()
    _mark(parser, _known(), "")
    script = shtab.complete(parser, options.shell)
    # -std is an option of several letters, which shtab takes for one of a single letter.
    print(script.replace(" -s std ", " -o std ") if options.shell == "fish" else script)
    if options.shell == "bash":
        print(_BASH)
    return EXIT_OK


def _mark(parser: argparse.ArgumentParser, known: Mapping[str, Any], path: str) -> None:
    """Tell shtab what the arguments of a command and of its subcommands can be."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, each in action.choices.items():
                _mark(each, known, f"{path}{name} ")
        elif not action.choices and action.nargs != 0:
            names = (f"{path}{action.dest}", action.dest, str(action.metavar))
            found = next((known[name] for name in names if name in known), None)
            if found is not None:
                action.complete = found  # type: ignore[attr-defined]  # where shtab looks


def _known() -> dict[str, Any]:
    """What an argument can be: by command and name where that tells it, else by name, else by its placeholder."""
    import shtab

    from gpusim.cli.schema import commands
    from gpusim.config import describe_keys, shipped_names
    from gpusim.host.options import CHECKS, MODES
    from gpusim.node import shipped_nodes
    from gpusim.workload.target import registry

    keys = describe_keys()
    kernels = ("*.py", "*.cu", "*.ptx", "*.cubin", "*.gpuprog")
    programs = _words("programs", registry().names(), kernels)
    gpus = _words("gpus", shipped_names(), ["*.toml"])
    assigned = _words("values", [f"{key}=" for key in keys])
    return {
        **dict.fromkeys(("program", "what", "diff a", "diff b"), programs),
        **dict.fromkeys(("gpu", "gpu_a", "gpu_b", "next", "base", "first", "second"), gpus),
        **dict.fromkeys(("config show name", "config check name"), gpus),
        **dict.fromkeys(("KEY=VALUE", "KEY=VALUES"), assigned),
        **dict.fromkeys(("FILE", "FILE.html", "PATH", "ARGS", "executable"), shtab.FILE),
        **dict.fromkeys(("DIR", "FOLDER"), shtab.DIRECTORY),
        "FILE.py": shtab.glob("*.py"),
        "FILE.toml": shtab.glob("*.toml"),
        "list file": shtab.glob(*kernels),
        "sensitivity keys": _words("keys", keys),
        "config keys section": _words("sections", dict.fromkeys(key.partition(".")[0] for key in keys)),
        "collective node": _words("nodes", shipped_nodes(), ["*.toml"]),
        "TOOLS": _words("checks", [name for name in CHECKS if name != "memcheck"]),
        "MODE": _words("modes", MODES),
        "schema words": _words("documents", dict.fromkeys(word for name in commands() for word in name.split("-"))),
    }


def _words(name: str, words: Iterable[str], patterns: Iterable[str] = ()) -> dict[str, Any]:
    """As `shtab.glob`: one of these words, or a file whose name is like one of the patterns."""
    import shtab

    function, listed = f"_gpusim_{name}", shlex.join(words)
    files: dict[str, Any] = shtab.glob(*patterns) if patterns else {"preamble": {}}
    call = {shell: files.get(shell, "").strip("()") for shell in ("bash", "fish")}
    end = "-S '' " if listed.endswith("=") else ""  # no space behind KEY=
    also = f'"files:file:{files["zsh"]}"' if patterns else ""
    return {
        "bash": function,
        "zsh": function,
        "fish": f"({function})",
        "preamble": {
            "bash": files["preamble"].get("bash", "")
            + f"{function}() {{\n  compgen -W '{listed}' -- \"$1\"\n  {call['bash'] or ':'} \"$1\"\n}}",
            "zsh": f'{function}() {{\n  local -a words=({listed})\n'
            f'  _alternative "{name}:{name}:compadd {end}-a words" {also}\n}}',
            "fish": files["preamble"].get("fish", "")
            + f"function {function}\n  printf '%s\\n' {listed}\n  {call['fish']}\nend",
        },
    }
