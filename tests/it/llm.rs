//! Language models: the client against a scripted server, cassettes, and the verbs that ask.

mod chain;
mod client;
mod filter;
mod local;
mod network;
mod server;
mod synth;
mod tape;
