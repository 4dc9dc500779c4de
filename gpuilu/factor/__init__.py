"""Values on a pattern become triangular factors L and U: one file per kind of preconditioner."""
