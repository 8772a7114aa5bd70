"""Files that neuralbasis writes and reads. No pickle anywhere.

model_file      a model <-> one versioned file: `model_writer`, `model_reader`, `records`, `arrays`
archive         a zip of named entries with checksums and size limits
nested_json     the state of a fit, for checkpoints
temporary_file  a target file is replaced whole or not at all
file_lock       an advisory lock on a folder
"""

from .archive import DocumentError, read_archive, write_archive
from .file_lock import FolderLock
from .nested_json import read_nested, write_nested
from .temporary_file import replace_when_done

__all__ = [
    "DocumentError", "FolderLock", "read_archive", "read_nested", "replace_when_done", "write_archive", "write_nested"
]  # fmt: skip
