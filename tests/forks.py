"""Python programs in processes of their own that need not begin with a second of imports: a process that has imported
what they use forks for each.

Only what a user's program finds imported already, which none of them asks for,
tells it from `python -m gpusim.cli ...`.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_ENVIRONMENT = dict(os.environ)
IMPORTED = (
    *("gpusim.cli.exec", "gpusim.device", "gpusim.driver.library", "gpusim.exec.program"),
    *("numba.cuda", "numba.cuda.compiler", "numba.cuda.fp16", "numba.cuda.libdevicedecl", "numba.cuda.np.arraymath"),
)


def run(*words: object, timeout: float = 300, **how: Any) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run([sys.executable, *words], capture_output=True, text=True, **how)` does, for words that begin
    with -c or -m and `cwd` and `env`. On other systems than Linux, it is that."""
    arguments = [str(each) for each in words]
    other = how.keys() - {"cwd", "env"} or _of_imports(how.get("env", os.environ)) != _of_imports(_ENVIRONMENT)
    if sys.platform != "linux" or other:
        return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=timeout, **how)
    folder, environment = how.get("cwd") or os.getcwd(), how.get("env", os.environ)
    request = {"words": arguments, "cwd": os.fspath(folder), "env": dict(environment)}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as asked:
        asked.write(json.dumps(request).encode())
        asked.flush()
        server, connection = _server()
        connection.settimeout(timeout)
        socket.send_fds(connection, [b"run"], [each.fileno() for each in (asked, out, err)])
        try:
            status = int(connection.recv(100))
        except TimeoutError:
            os.killpg(server.pid, signal.SIGKILL)
            _server.cache_clear()
            raise subprocess.TimeoutExpired(arguments, timeout) from None
        texts = []
        for each in (out, err):
            each.seek(0)
            texts.append(each.read().decode())
    return subprocess.CompletedProcess(arguments, status, *texts)


def _of_imports(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that are read when modules are imported."""
    names = ("GPUSIM_", "NUMBA", "PYTHONDONT", "PYTHONUNBUFFERED", "TMPDIR")
    return {name: value for name, value in environment.items() if name.startswith(names)}


@cache
def _server() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """The process that forks, and the connection with which it ends."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-c", "from tests.forks import serve; serve()", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=_ENVIRONMENT | {"PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
    atexit.register(ours.close)
    return server, ours


def serve() -> None:
    """Fork for each request, and become its program in the fork."""
    from gpusim.driver import numba_cuda

    before = dict(os.environ)
    numba_cuda.install("tiny")  # Numba looks for it when it is imported; programs put drivers of their own in its place
    installed = dict(os.environ.items() - before.items())
    for name in IMPORTED:
        import_module(name)
    # The first kernel reads all types of Numba.
    sys.modules["numba.cuda"].compile(lambda number: None, "void(int64)", cc=(9, 0))
    gc.collect()
    gc.freeze()
    connection = socket.socket(fileno=int(sys.argv[1]))
    while True:
        asked, files, _, _ = socket.recv_fds(connection, 100, 3)
        if not asked:
            return
        child = os.fork()
        if child == 0:
            connection.close()
            return _become(files, installed)
        for each in files:
            os.close(each)
        connection.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def _become(files: list[int], installed: dict[str, str]) -> None:
    with open(files[0], "rb") as asked:
        asked.seek(0)
        request = json.load(asked)
    for target, source in enumerate(files[1:], 1):
        os.dup2(source, target)
        os.close(source)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"] | installed)
    way, what, *rest = request["words"]
    paths = filter(None, request["env"].get("PYTHONPATH", "").split(os.pathsep))
    others = (path for path in sys.path[1:] if path != str(ROOT))
    sys.path[:] = ["" if way == "-c" else os.getcwd(), *paths, *others]
    if way == "-m":
        sys.argv[:] = ["-m", *rest]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
        return
    sys.argv[:] = ["-c", *rest]
    main = sys.modules["__main__"] = type(sys)("__main__")
    main.__dict__["__builtins__"] = __builtins__
    exec(compile(what, "<string>", "exec"), main.__dict__)
