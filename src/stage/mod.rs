//! One room a stage; each = plan tasks → run → record.

pub mod audit;
pub mod filter;
pub mod freeze;
pub mod funnel;
pub mod import;
pub mod label;
pub mod score;
pub mod synth;
pub mod validate;
