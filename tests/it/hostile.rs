//! The hostile table: revisions that misbehave, and the verdicts that they deserve.
