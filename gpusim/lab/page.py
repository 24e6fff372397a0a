"""The page as text: for the server, and as one file of Play that needs none."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import Any

from gpusim.config.load import shipped_names
from gpusim.lab import play
from gpusim.lab.answers import predict
from gpusim.lab.exercises import Exercise
from gpusim.report_html import filled, json_for_script, module_url
from gpusim.workload.target import registry

REPORT_MODULES = ("format", "access", "beside", "source")
"""Modules of the report that the page uses too."""
MODULES = ("rules", "play", "colours", "editor", "code", "write", "watch", "solve", "explore", "teach", "ask", "main")


@cache
def module(name: str) -> str | None:
    """A file that the page asks for; None if there is none of the name."""
    stem, _, kind = name.rpartition(".")
    package, folder = "gpusim.lab", "static/js"
    if kind == "js" and stem in REPORT_MODULES:
        package, folder = "gpusim.report_html", "js"
    elif name == "lab.css":
        folder = "static"
    elif kind != "js" or stem not in MODULES:
        return None
    return resources.files(package).joinpath(*folder.split("/"), name).read_text("utf-8")


def _experiments() -> dict[str, Any]:
    """The experiments as the page takes them, and a GPU's measurements in the order of their places."""
    recorded = play.recorded()
    measured = {"gpu": recorded["about"]["gpu"], "experiments": recorded["experiments"]}
    return {"play": [asdict(each) for each in play.EXPERIMENTS.values()], "measured": measured}


def lab_page(exercises: Sequence[Exercise], progress: dict[str, Any]) -> str:
    """The page of the server."""
    data = _experiments() | {
        "gpus": list(shipped_names()),
        "exercises": [vars(each) | {"goals": [goal.text for goal in each.goals]} for each in exercises],
        "starts": tomllib.loads((play.HERE / "starts.toml").read_text("utf-8"))["start"], "progress": progress,
        "lessons": {name: registry().get(name).teaches for name in registry().names()}, "explored": play.EXPLORED,
    }  # fmt: skip
    imports = {f"gpusim/{name}": f"/static/{name}.js" for name in (*REPORT_MODULES, *MODULES)}
    return _filled(imports, '<link rel="stylesheet" href="/static/lab.css">', 'import "gpusim/main";', data)


def play_page() -> str:
    """Play as one file: without a server it has the rules, the recorded figures, and predictions of `steps` alone."""
    names = ("format", "access", "rules", "play")
    imports = {f"gpusim/{name}": module_url(name, module(f"{name}.js") or "") for name in names}
    known = {f"{k},{n}": predict("steps", {"condition": k, "rounds": n}, "h100") for k in range(4) for n in range(4)}
    data = _experiments() | {"predicted": {"steps": known}}
    return _filled(imports, f"<style>{module('lab.css')}</style>", module("main.js") or "", data)


def _filled(imports: dict[str, str], style: str, main: str, data: dict[str, Any]) -> str:
    page = resources.files("gpusim.lab").joinpath("static", "lab.html").read_text("utf-8")
    return filled(page, imports=json.dumps({"imports": imports}), style=style, main=main, data=json_for_script(data))
