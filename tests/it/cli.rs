//! What a person types and sees.

mod files;
mod input;
mod lines;
mod output;
mod settings;
