"""What hatchling puts into the package's metadata: the README with links that work outside of the repository.

GPUSIM_REPOSITORY_URL and GPUSIM_REPOSITORY_REF, which the release workflow sets, say where the repository is and which
tag is built. Without them links to files become plain text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
_SOURCE = re.compile(r'\b(src|srcset|href)="(?![a-z]+:|#)([^"\s]+)"')


def absolute(text: str, url: str | None, ref: str) -> str:
    """Markdown whose links and pictures lead to the repository at `url`; without one they become plain text."""
    if url is None:
        return _LINK.sub(r"\2", text)
    text = _LINK.sub(lambda m: f"{m[1]}[{m[2]}]({url}/{'raw' if m[1] else 'blob'}/{ref}/{m[3]})", text)
    return _SOURCE.sub(lambda m: f'{m[1]}="{url}/{"blob" if m[1] == "href" else "raw"}/{ref}/{m[2]}"', text)


class MetadataHook(MetadataHookInterface):
    """Fills in `readme` and `urls`, which pyproject.toml calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        url, ref = os.environ.get("GPUSIM_REPOSITORY_URL"), os.environ.get("GPUSIM_REPOSITORY_REF", "HEAD")
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, url, ref)}
        pages = {"Documentation": "tree/{ref}/docs", "Changelog": "blob/{ref}/CHANGELOG.md", "Issues": "issues"}
        metadata["urls"] = {}
        if url is not None:
            metadata["urls"] = {"Repository": url} | {n: f"{url}/{p.format(ref=ref)}" for n, p in pages.items()}
