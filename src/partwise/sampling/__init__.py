"""Gibbs sampling of labels: what the samplers of all families share."""
