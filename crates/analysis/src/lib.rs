//! What a trace says: one file an analysis.
