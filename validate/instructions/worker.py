"""Run a job on a GPU: `python worker.py JOB.npz OUT.npz [SECONDS]`. Needs NumPy and CuPy, nothing of this repository.

Each form is the job's cubin with 16 bytes replaced, loaded and launched on its family's operands. An instruction that
the GPU refuses ends its process's context, so child processes do the work, some at a time, each with a share of the
forms; the form at which one ends is marked and the next child goes on behind it.
"""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

_CHILDREN = 8
_MAX_REFUSED = 100  # for each share
_CELL_WORDS = 8


def _run_share(job_path: str, raw: str, share: int, position: int, seconds: float) -> None:
    """Run the forms of one share from `position` on; appends (number, results) records to the file `raw`."""
    import cupy as cp

    started = time.monotonic()
    with np.load(job_path) as file:
        job = dict(file)
    cubin, offset, width = bytes(job["cubin"]), int(job["offset"]), int(job["output_words"])
    lanes = job["operands"].shape[1]
    sources = (
        [cp.asarray(x) for x in job["operands"]],
        [cp.asarray(np.repeat(x, 32, axis=0)) for x in job["operands"]],
    )
    cells = cp.empty((32 * lanes, _CELL_WORDS), cp.uint32)
    out = cp.empty((32 * lanes, width), cp.uint32)
    constants = job["constants"].astype(np.uint32).tobytes()
    by_value = np.frombuffer(constants, dtype=np.dtype((np.void, len(constants))))[0]
    with open(raw, "ab") as file:
        for k in range(share + _CHILDREN * position, len(job["encoding"]), _CHILDREN):
            if time.monotonic() - started > seconds:
                return
            module = cp.cuda.function.Module()
            code = np.asarray(job["encoding"][k], np.uint64).tobytes()
            module.load(cubin[:offset] + code + cubin[offset + 16 :])
            uniform = int(job["uniform"][k])  # one block for each set of operands instead of one lane
            source = sources[uniform][int(job["family"][k])]
            threads = len(source)
            cells[:threads] = source
            out.fill(0)
            module.get_function("form")((threads // 32, 1, 1), (32, 1, 1), (cells, out, by_value))
            step = 32 if uniform else 1
            result = [cp.asnumpy(out[:threads:step]), cp.asnumpy(cells[:threads:step])]
            np.array([k], np.int64).tofile(file)
            np.concatenate(result, axis=1).astype(np.uint32).tofile(file)
            file.flush()


def _gather(raw: str, results: np.ndarray, state: np.ndarray) -> int:
    """Put the finished records of a file into the results."""
    record = 8 + 4 * results[0].size
    data = np.fromfile(raw, np.uint8)
    data = data[: len(data) // record * record].reshape(-1, record)
    numbers = data[:, :8].copy().view(np.int64)[:, 0]
    results[numbers] = data[:, 8:].copy().view(np.uint32).reshape(-1, *results.shape[1:])
    state[numbers] = 1
    return len(numbers)


def _supervise(
    job_path: str,
    out_path: str,
    share: int,
    results: np.ndarray,
    state: np.ndarray,
    messages: dict[int, str],
    ends: float,
) -> None:
    """Start children until the share is done; `state` becomes 1 recorded or 2 refused."""
    raw = f"{out_path}.{share}.raw"
    own = range(share, len(state), _CHILDREN)
    position = refused = 0
    Path(raw).write_bytes(b"")
    while position < len(own) and refused < _MAX_REFUSED and time.monotonic() < ends - 3:
        seconds = ends - time.monotonic() - 2
        line = [sys.executable, __file__, job_path, raw, str(share), str(position), str(seconds)]
        try:
            child = subprocess.run(line, capture_output=True, text=True, timeout=seconds + 5)
            error = child.stderr.strip().splitlines()[-1] if child.returncode else ""
        except subprocess.TimeoutExpired:
            error = "timed out"
        done = _gather(raw, results, state)
        Path(raw).write_bytes(b"")
        position += done
        if error:
            state[own[position]] = 2
            messages[own[position]] = error
            position += 1
            refused += 1
        elif not done:
            break
    Path(raw).unlink()


def _facts() -> dict[str, str]:
    import cupy as cp

    line = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return {
        "gpu": cp.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "driver": subprocess.run(line, capture_output=True, text=True).stdout.strip(),
        "cupy": cp.__version__,
    }


def main(job_path: str, out_path: str, seconds: float = 600.0) -> None:
    """Run a whole job within about `seconds` and write results [forms, lanes, words], state [forms], provenance."""
    ends = time.monotonic() + seconds
    with np.load(job_path) as file:
        texts, lanes, width = file["text"], file["operands"].shape[1], int(file["output_words"])
    results = np.zeros((len(texts), lanes, width + _CELL_WORDS), np.uint32)
    state = np.zeros(len(texts), np.uint8)
    messages: dict[int, str] = {}
    with ThreadPoolExecutor(_CHILDREN) as pool:
        list(
            pool.map(
                lambda share: _supervise(job_path, out_path, share, results, state, messages, ends), range(_CHILDREN)
            )
        )
    for k in sorted(messages):
        print(f"{texts[k]}: {messages[k][-70:]}")
    print("not reached, recorded, refused:", np.bincount(state, minlength=3).tolist())
    np.savez_compressed(out_path, results=results, state=state, provenance=json.dumps(_facts()))


if __name__ == "__main__":
    if len(sys.argv) > 4:
        _run_share(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
    else:
        main(sys.argv[1], sys.argv[2], *(float(each) for each in sys.argv[3:]))
