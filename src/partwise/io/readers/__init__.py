"""One file per family of file formats; each reader takes a path and options and gives a Table."""
