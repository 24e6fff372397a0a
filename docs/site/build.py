"""Make the site, offline: `python docs/site/build.py [FOLDER]`, by default into build/site; `make docs` does this.

Sphinx, to which every warning is an error, and the reports; then all links of what came out. The status is 1 if one of
them goes wrong or a link is broken.
"""

from __future__ import annotations

import multiprocessing
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from sphinx.cmd.build import main as sphinx  # noqa: E402

from docs.site import links, reports, sections  # noqa: E402
from gpusim.lab.page import play_page  # noqa: E402

FRONT = '<!doctype html><title>gpusim</title><meta http-equiv="refresh" content="0; url={0}"><a href="{0}">gpusim</a>\n'
"""The first page leads on: pages lie where their sources lie in the repository."""


def build(site: Path) -> int:
    """Make everything anew in `site`; the status for a shell."""
    start = time.perf_counter()
    shutil.rmtree(site, ignore_errors=True)
    # Beside each other: where the engine is not yet compiled, the reports take longer than Sphinx.
    reported = multiprocessing.get_context("spawn").Process(target=reports.write, args=(site / "reports",))
    reported.start()
    options = ["--fail-on-warning", "--keep-going", "--fresh-env", "--quiet"]
    doctrees = site.with_name(site.name + "-doctrees")
    failed = sphinx([*options, "-c", str(ROOT / "docs/site"), "-d", str(doctrees), str(ROOT), str(site)])
    print(f"pages: {time.perf_counter() - start:.0f} s", flush=True)
    sections.write(site)
    reported.join()
    (site / "play.html").write_text(play_page(), "utf-8")
    (site / "index.html").write_text(FRONT.format("docs/index.html"), "utf-8")
    found = links.broken(site)
    print("\n".join(found) or "all links lead somewhere, nothing is loaded from elsewhere")
    print(f"{site}: {time.perf_counter() - start:.0f} s")
    return int(failed or reported.exitcode or bool(found))


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site").resolve()))
