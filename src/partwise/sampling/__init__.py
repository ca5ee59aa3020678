"""Gibbs sampling of labels: code shared by the samplers of all families."""
