"""How Sphinx makes the site: what is on it, how it looks, and what this project's pages need beyond Sphinx.

The source is the whole repository, so that links between README, docs/ and notebooks/ are the same here as on a code
host. CONTRIBUTING.md says how it is built and why with these tools.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from docutils import nodes  # noqa: E402
from docutils.utils.math.latex2mathml import tex2mathml  # noqa: E402

import gpusim  # noqa: E402
from docs.site.docstrings import as_rst  # noqa: E402
from docs.site.made import with_made  # noqa: E402

project = "gpusim"
version = release = gpusim.__version__
author = "gpusim maintainers"
copyright = "gpusim maintainers, Apache-2.0"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]

root_doc = "docs/index"
include_patterns = ["docs/**", "notebooks/*.ipynb", "notebooks/README.md"]
include_patterns += ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
nb_execution_mode = "off"  # as they are stored: tests/test_notebooks.py runs them
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]

default_role = "code"
highlight_language = "text"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 80
napoleon_numpy_docstring = False

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = f"gpusim {version}"
html_static_path = ["static"]
html_favicon = "static/icon.svg"
html_css_files = ["site.css"]
html_js_files = ["search.js"]
templates_path = ["templates"]
html_additional_pages = {"search": "search.html"}  # not Sphinx's: sections.py says why
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"
html_theme_options = {"top_of_page_buttons": []}
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True


def read(app, name, source):
    source[0] = with_made(source[0])


def docstring(app, what, name, obj, options, lines):
    lines[:] = as_rst("\n".join(lines)).split("\n")


def without_search(app):
    app.builder.search = False


def formula(visitor, node):
    """MathML, which browsers draw by themselves: Sphinx's other ways load a script from elsewhere, or want LaTeX."""
    visitor.body.append(tex2mathml(node.astext(), as_block=isinstance(node, nodes.math_block)))
    raise nodes.SkipNode


def setup(app):
    app.connect("builder-inited", without_search)
    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", docstring, priority=400)  # before Napoleon, which has 500
    app.add_html_math_renderer("mathml", inline_renderers=(formula, None), block_renderers=(formula, None))
