# SPDX-License-Identifier: MIT OR Apache-2.0
# Sphinx's settings. make_site.py runs it on what it has collected, and adds version and folders.
import html
import pathlib
import re

from docutils import nodes

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
html_favicon = "static/favicon.svg"
html_search_scorer = str(pathlib.Path(__file__).parent / "static/scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False


# Paragraphs that many pages begin with.
SHARED = "#include", "The map has this room's place", "The safety model says how"


def describe(_app, _page, _template, context, doctree):
    """A page's first sentence, for search engines; a short one with the next. Pages that Sphinx makes
    itself have none."""
    paragraphs = (paragraph.astext() for paragraph in doctree.findall(nodes.paragraph)
                  if isinstance(paragraph.parent, (nodes.section, nodes.list_item))) if doctree else ()
    first = next((text for text in paragraphs if not text.startswith(SHARED)), None)
    if first:
        sentence = re.match(r".{40,}?[.](?= |$)|.*", " ".join(first.split()))[0]
        context["metatags"] += f'<meta name="description" content="{html.escape(sentence)}">\n'


def setup(app):
    app.connect("html-page-context", describe)
