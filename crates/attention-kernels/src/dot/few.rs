//! Few queries.
