"""Files of a model: the format and its checks (`model_file`), a bounded zip (`archive`), files that are replaced whole
or not at all (`temporary_file`), locks (`file_lock`), records as JSON (`nested_json`). No pickle anywhere.
"""
