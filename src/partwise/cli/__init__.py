"""The command ``partwise``. A file in `partwise.cli.commands` is a command; see there."""
