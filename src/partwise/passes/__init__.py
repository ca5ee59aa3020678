"""The pass over the nonzeros of one side of the data, shared by all count models."""
