//! The result channel: what a forger tries, what canaries see.
