"""One file per command, found by its name; to add a command, add a file.

A module has ``command`` and ``EXAMPLES`` (command lines that the help shows and the tests run). The parameters of
``command`` are the arguments and options; one that is annotated with a dataclass, whose fields are made by
`partwise.cli.options.option`, stands for a bundle of options. Its docstring is the help. It returns a
`partwise.cli.output.Outcome`, which is printed as lines or, with ``--json``, as one object. Heavy imports stand inside
functions, as ``partwise --help`` imports every module.
"""
