//! Shared by the tests: devices, references and comparisons.
