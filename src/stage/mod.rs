//! One room a stage; each reads records and writes records.

pub mod import;
