"""Files that neuralbasis writes and reads. No pickle anywhere.

model_file      a model <-> one versioned file: `model_writer`, `model_reader`, `records`, `arrays`, `old_formats`
archive         a zip of named entries with checksums and size limits
nested_json     the state of a fit, for checkpoints
temporary_file  a target file is replaced whole or not at all
file_lock       an advisory lock on a folder
"""
