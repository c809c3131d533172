//! Foreign files ⇄ the model, one file a format. Pure: text and bytes in, rows and named problems out.

pub mod ccrab;
pub mod folder;
pub mod github;
pub mod junit;
pub mod predictions;
pub mod swe_care;
pub mod tap;
