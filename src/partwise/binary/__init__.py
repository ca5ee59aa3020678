"""Nonnegative factorization of bits: P(x = 1) = Σ_k w_k h_k, with beta and Dirichlet factors. Also, logistic PCA."""
