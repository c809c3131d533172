//! `kill -9` at named points and at random instants.
