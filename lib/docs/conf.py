# SPDX-License-Identifier: MIT OR Apache-2.0
# Sphinx's settings. make_site.py runs it on what it has collected, and adds version and folders.
import pathlib

project = "lend"
author = "the lend authors"
project_copyright = "the lend authors; MIT OR Apache-2.0"
extensions = ["myst_parser", "breathe"]
myst_enable_extensions = ["colon_fence"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 4
highlight_language = "none"
smartquotes = False
breathe_default_project = "lend"
breathe_default_members = ("members",)
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(pathlib.Path(__file__).parent / "static/scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
