"""One file a command, found by its name; to add a command, add a file.

A module has ``command`` (a function whose annotated parameters are the arguments and options, and whose docstring is
the help) and ``EXAMPLES`` (command lines that the help shows and the tests run). Heavy imports stand inside
``command``, as ``partwise --help`` imports every module.
"""
