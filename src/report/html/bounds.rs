//! How large the pages may get.
//!
//! A run of a few thousand verdicts is one file, `report.html`. A larger one keeps its summary there and puts each
//! instance on a page of its own, `instances/ID.html`, linked by a relative address. Nothing is left out silently:
//! where a text is cut, the page says how many bytes are missing and names the file in the run folder that holds them
//! all; where a verdict's evidence is not embedded, it is one line that ends with the key of its record.
//!
//! With `n` verdicts the pages together take at most about `EVIDENCE_BYTES + n × 3 kB`, and no page more than about
//! `PAGE_BYTES` of evidence beside the facts of its own verdicts.

/// Bytes of rendered instances up to which everything stays in `report.html`.
pub const ONE_PAGE_BYTES: usize = 8 << 20;

/// Rows of the verdict table up to which `report.html` has all of them; beyond, the tables are on the instances' pages.
pub const TABLE_ROWS: usize = 5_000;

/// Verdicts whose evidence (record, patch, outputs) is embedded. Where there are more, those that did not pass go first.
pub const EVIDENCE_VERDICTS: usize = 10_000;

/// Bytes of evidence that all pages together embed.
pub const EVIDENCE_BYTES: usize = 128 << 20;

/// Bytes of evidence that one instance embeds.
pub const PAGE_BYTES: usize = 8 << 20;

/// Bytes of a comment's text.
pub const COMMENT_BYTES: usize = 8 << 10;

/// Bytes of a patch; each is shown once for each instance.
pub const PATCH_BYTES: usize = 24 << 10;

/// Bytes of a test's source; each is shown once.
pub const TEST_BYTES: usize = 24 << 10;

/// Bytes of each output: the first third and the last two thirds of them.
pub const OUTPUT_BYTES: usize = 6 << 10;

/// Bytes of a message or reason.
pub const MESSAGE_BYTES: usize = 2 << 10;

/// Characters of a comment or message in a table.
pub const CELL_CHARS: usize = 160;

/// Tests of one run that are listed.
pub const LISTED_TESTS: usize = 50;

/// Rows of the smaller tables of the front page (disagreements, bad controls, infra details).
pub const LISTED: usize = 200;
