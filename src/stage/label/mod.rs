//! Labelling by people: a sheet with one row a comment goes out, two people's sheets come back, are compared, and become
//! gold labels. Pure.

mod compare;
mod page;
mod sheet;

pub use compare::{Compared, Conflict, Gold, Point, compare, gold};
pub use page::{PageError, page};
pub use sheet::{Answer, COLUMNS, Row, SheetError, read_csv, read_jsonl, rows, write_csv};

use crate::model::{CommentId, InstanceId};

/// Names a comment.
pub type CommentKey = (InstanceId, CommentId);
