"""Configuration of the documentation site (Sphinx); `make docs` builds it into build/docs, without a network.

Pages are Markdown files of this folder. The gallery runs `gallery/plot_*.py`, the tutorials run `tutorials/*.py` as
notebooks, and the API reference is made of docstrings.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # benchmarks and examples, for blocks of pages
os.environ.setdefault("MPLBACKEND", "Agg")

warnings.filterwarnings("ignore", module="myst_parser")  # it uses attributes that a later Sphinx will remove

import neuralbasis

project, author = "neuralbasis", "the authors of neuralbasis"
project_copyright = author
version = release = neuralbasis.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["conf.py", "gallery/*", "tests/*", "auto_examples/**.py", "auto_examples/**.ipynb", "_*"]
suppress_warnings = ["config.cache"]  # the functions below cannot be pickled; the build is complete anyway
templates_path = ["_templates"]
default_role = "py:obj"
smartquotes = False  # docstrings quote values of parameters
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = html_short_title = "neuralbasis"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_extra_path = ["_pages"]
(HERE / "_pages").mkdir(exist_ok=True)  # the page that an example writes
os.environ["NEURALBASIS_DOCS_PAGES"] = str(HERE / "_pages")
html_theme_options = {
    "logo": {"text": "neuralbasis"},
    "show_prev_next": True,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {
    "index": [],
    "first_use": [],
    "contributing": [],
    "faq": [],
    "glossary": [],
    "changelog": [],
    "benchmarks": [],
}

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]
nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}
nb_execution_mode = "force"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_execution_in_temp = True
nb_output_stderr = "remove"  # progress bars

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
numpydoc_class_members_toctree = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True


def scrape_figures(block, block_vars, gallery_conf):
    """Save the figures of an example: figures of neuralbasis are made without pyplot."""
    from matplotlib.figure import Figure
    from sphinx_gallery.scrapers import figure_rst

    namespace = block_vars["example_globals"]
    saved = namespace.setdefault("_saved_figures", [])
    paths = []
    for value in list(namespace.values()):
        if isinstance(value, Figure) and not any(value is old for old in saved):
            path = next(block_vars["image_path_iterator"])
            value.savefig(path, dpi=110)
            paths.append(path)
            saved.append(value)
    return figure_rst(paths, gallery_conf["src_dir"])


def remove_files(gallery_conf, name):
    """Remove what an example has written: sphinx-gallery runs it in its own folder."""
    for path in (HERE / "gallery").iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.suffix not in (".py", ".rst"):
            path.unlink()


sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": (scrape_figures,),
    "reset_modules": (remove_files,),
    "reset_modules_order": "after",
    "capture_repr": ("_repr_html_",),
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 0,
    "plot_gallery": "True",
    "write_computation_times": False,
    "doc_module": ("neuralbasis",),
    "backreferences_dir": "api/backreferences",
}

SECTIONS = re.compile(r"^(Parameters|Returns|Yields|Warns|Raises|Attributes)$")
ENTRY = re.compile(r"^([\w*][\w, *]*) : (.+)$")


def move_descriptions(lines):
    """Write `name : description` as numpydoc expects a description: below the name, since types are in signatures."""
    found, section = [], False
    for at, line in enumerate(lines):
        if at + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[at + 1]):
            section = bool(SECTIONS.match(line))
        entry = ENTRY.match(line) if section else None
        below = lines[at + 1] if at + 1 < len(lines) else ""
        is_typed = below.startswith("    ") and below.strip()[:1].isupper() and len(line) < 90
        if entry and not is_typed:
            found += [entry[1], f"    {entry[2]}"]
        else:
            found.append(line)
    return found


def escape_marks(line):
    """Escape marks that have another meaning in reStructuredText: |x| and names that end with an underscore."""
    if line.lstrip().startswith((">>>", "...")):
        return line
    parts = re.split(r"(`+[^`]*`+)", line)
    parts[::2] = [re.sub(r"(\w)_(?=\W|$)", r"\1\\_", part.replace("|", r"\|")) for part in parts[::2]]
    return "".join(parts)


# Files of the repository that are pages of the site; links to them, and their own links, are rewritten.
COPIES = {
    "benchmarks": "benchmarks/RESULTS.md",
    "notebook": "benchmarks/NOTEBOOK.md",
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
}
PAGES = {path: name for name, path in COPIES.items()}
LINK = re.compile(r"(!?)\[([^\[\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def rewrite_links(text, folder):
    """Let links between files of the repository lead to pages of the site; text remains of links to other files."""

    def rewrite(found):
        mark, label, target, anchor = found.groups(default="")
        path = os.path.normpath(os.path.join(folder, target))
        if path in PAGES:
            return f"[{label}]({PAGES[path]}.md{anchor})"
        inside = re.sub(r"^gallery/(\w+)\.py$", r"auto_examples/\1.rst", os.path.relpath(path, "docs"))
        if not inside.startswith(".."):
            return f"{mark}[{label}]({inside}{anchor})"
        if mark and (HERE.parent / path).is_file():
            return f"![{label}](../{path})"
        return label

    return LINK.sub(rewrite, text)


def read_source(app, docname, source):
    if docname in COPIES:
        path = COPIES[docname]
        source[0] = rewrite_links((HERE.parent / path).read_text(encoding="utf-8"), os.path.dirname(path))
    elif app.env.doc2path(docname).endswith(".md"):
        source[0] = rewrite_links(source[0], "docs")


def prepare_docstring(app, what, name, found, options, lines):
    is_example = False
    prepared = []
    for line in move_descriptions(lines):
        is_example = (is_example or line == "Examples") and line not in ("Parameters", "Returns")
        prepared.append(line if is_example else escape_marks(line))
    lines[:] = prepared


def skip_foreign_members(app, what, name, found, skip, options):
    """Leave out members that scikit-learn and the standard library define."""
    home = getattr(
        inspect.unwrap(getattr(found, "fget", None) or getattr(found, "func", None) or found), "__module__", None
    )
    if home is not None and not home.startswith("neuralbasis"):
        return True
    return True if re.fullmatch(r"set_\w+_request", name) else None


def remove_progress(app, error):
    """Remove progress bars and warnings, which name paths of this machine, from the notebooks to download."""
    for path in Path(app.outdir, "_downloads").rglob("*.ipynb"):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            if "outputs" in cell:
                cell["outputs"] = [found for found in cell["outputs"] if found.get("name") != "stderr"]
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False), encoding="utf-8")


def setup(app):
    app.connect("source-read", read_source)
    app.connect("autodoc-process-docstring", prepare_docstring, priority=1)  # before numpydoc
    app.connect("build-finished", remove_progress)
    app.connect("autodoc-skip-member", skip_foreign_members)
