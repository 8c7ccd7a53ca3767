"""Settings of Sphinx. Nothing is asked of other machines: fonts are the reader's own, scripts are part of the site."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from docstrings import as_rst

from pcarann import __version__

project, release, copyright = "pcarann", __version__, "the authors of pcarann, MIT licence"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3  # so that page.md#a-heading is a link

html_theme = "furo"
html_title = f"pcarann {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
pygments_style, pygments_dark_style = "friendly", "github-dark"

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
add_module_names = False
maximum_signature_line_length = 100
napoleon_google_docstring = False
napoleon_use_rtype = False
toc_object_entries_show_parents = "hide"


def _translated(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings of ours only: those that are inherited from scikit-learn are reStructuredText already."""
    if name.startswith("pcarann") and not (getattr(obj, "__module__", None) or "pcarann").startswith("sklearn"):
        lines[:] = as_rst("\n".join(lines)).split("\n")


def _left_out(app: Any, what: str, name: str, *others: Any) -> bool | None:
    """Skip what scikit-learn adds for the routing of metadata."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def setup(app: Any) -> None:
    """Translate docstrings before Napoleon reads their sections."""
    app.connect("autodoc-process-docstring", _translated, priority=400)
    app.connect("autodoc-skip-member", _left_out)
