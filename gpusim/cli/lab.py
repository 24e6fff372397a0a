"""`gpusim lab`: a page to play with a GPU, to write kernels and to watch them."""

from __future__ import annotations

import argparse
import errno
import json
import os
import secrets
import socket
import threading
import webbrowser
from pathlib import Path

from gpusim.cli.outputs import columns
from gpusim.cli.parser import UserError
from isa.folders import replacing

_HOST = "localhost"


def execute(options: argparse.Namespace) -> None:
    if options.export:
        from gpusim.lab.page import play_page

        with replacing(options.export) as part:
            part.write_text(play_page(), "utf-8")
        print(options.export)
        return
    if options.progress:
        print(progress_table(Path(options.progress)))
        return
    try:
        import uvicorn

        from gpusim.lab.exercises import load_exercises
        from gpusim.lab.server import LabServer, make_app
    except ModuleNotFoundError as missing:
        raise UserError(f"gpusim lab needs {missing.name}: pip install 'gpusim[lab]'") from None
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", options.port))
        except (OSError, OverflowError) as error:
            used = getattr(error, "errno", None) == errno.EADDRINUSE
            why = "this port is in use, perhaps by another gpusim lab; name another, or 0 for any" if used else error
            raise UserError(f"--port {options.port}: {why}") from error
        key, lab = secrets.token_urlsafe(24), LabServer(progress_file(), load_exercises(options.exercises))
        address = f"http://{_HOST}:{listening.getsockname()[1]}/?key={key}"
        print(f"{address}\nfor you alone, until Ctrl-C", flush=True)
        threading.Thread(target=lab.warm, daemon=True).start()
        if not options.no_browser:
            webbrowser.open(address)
        try:
            uvicorn.Server(uvicorn.Config(make_app(lab, key), log_level="warning")).run([listening])
        finally:
            lab.close()


def progress_table(folder: Path) -> str:
    """What students have handed in, a row for each file of a folder and of those in it. Raises UserError."""
    rows: dict[str, dict[str, str]] = {}
    for file in sorted(folder.rglob("*.json")):
        try:
            for each in json.loads(file.read_text("utf-8"))["exercises"]:
                told = f"{each['attempts']:d}" if each["solved"] else f"({each['attempts']:d})".replace("(0)", "-")
                rows.setdefault(file.relative_to(folder).with_suffix("").as_posix(), {})[each["exercise"]] = told
        except (OSError, ValueError, TypeError, KeyError):
            raise UserError(f"{file} is no file that Solve makes to hand in") from None
    if not rows:
        raise UserError(f"--progress {folder}: there is no file *.json in it, as Solve makes them to hand in")
    titles = list(dict.fromkeys(title for row in rows.values() for title in row))
    table = [["", *map(str, range(1, len(titles) + 1)), "solved"]]
    for name, row in rows.items():
        table.append([name, *(row.get(each, "-") for each in titles), str(sum(map(str.isdigit, row.values())))])
    lines = [columns(table, "<>"), "", *(f"{number:>2}  {title}" for number, title in enumerate(titles, 1)), ""]
    return "\n".join([*lines, "3: solved, with three attempts in all; (3): three attempts, not solved; -: no attempt"])


def progress_file() -> Path:
    """Return where this user's progress through the exercises is kept."""
    data = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "gpusim" / "lab.json"
