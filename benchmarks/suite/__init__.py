"""The benchmarks, one file each. A file here is found by its name; it defines one function:

``measure(settings: Settings) -> Iterator[Line]``

The first sentence of its docstring is the title under which its lines stand in the table.
"""
