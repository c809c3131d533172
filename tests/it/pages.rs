//! Reports that people open.
