//! The tests of the built binary and of the rooms' joints, in one program.

mod import;
mod oracle;
mod sandbox;
