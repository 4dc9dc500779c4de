"""Sphinx configuration."""

import gpuilu

project = "gpuilu"
author = "The gpuilu developers"
copyright = author
version = release = gpuilu.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc"]
templates_path = ["_templates"]
exclude_patterns = ["_build"]

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's type slots say more: shapes and dtypes
numpydoc_show_class_members = False  # the class template lists them

html_theme = "pydata_sphinx_theme"
html_title = "gpuilu"
html_theme_options = {"navigation_with_keys": False}
html_show_sourcelink = False
