"""The pass over the nonzeros of one side of the data, which all count models share."""
