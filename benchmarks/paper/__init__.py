"""The paper's experiments: its tables as data, the runner of their cells, the search, and the part of the report."""
