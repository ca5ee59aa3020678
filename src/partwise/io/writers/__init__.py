"""Writers of results and of matrices; every file is written whole or not at all."""
