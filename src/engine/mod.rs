//! Placeholder while the rooms are being filled.
