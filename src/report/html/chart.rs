//! Numbers of small charts, in thousandths of their width: the templates draw them as SVG.

use serde::Serialize;

use crate::metrics::{ArmRow, Interval};

/// A piece of a bar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// What it counts; also its class in the style sheet.
    pub kind: &'static str,
    /// How many.
    pub count: usize,
    /// Where it begins.
    pub x: u32,
    /// How wide it is.
    pub width: u32,
}

/// A bar of an arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bar {
    /// Its pieces from left to right; empty ones are left out.
    pub pieces: Vec<Piece>,
    /// The interval of the rate, from left to right end.
    pub interval: Option<(u32, u32)>,
}

/// Passed, failed, invalid and missing of an arm, and the interval of its rate.
pub(super) fn bar(row: &ArmRow) -> Bar {
    let counts = [("pass", row.passed), ("fail", row.failed), ("invalid", row.invalid), ("missing", row.missing)];
    let mut pieces = Vec::new();
    let mut before = 0;
    for (kind, count) in counts {
        let x = share(before, row.total);
        before += count;
        if count > 0 {
            pieces.push(Piece { kind, count, x, width: share(before, row.total) - x });
        }
    }
    let end = |share: f64| (share.clamp(0.0, 1.0) * 1000.0).round() as u32;
    Bar { pieces, interval: row.rate_interval.map(|Interval(low, high)| (end(low), end(high))) }
}

/// A part of a whole in thousandths.
pub(super) fn share(part: usize, whole: usize) -> u32 {
    if whole == 0 { 0 } else { (part as f64 / whole as f64 * 1000.0).round() as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_fill_the_bar() {
        let row = ArmRow {
            arm: "a".to_owned(),
            control: false,
            passed: 1,
            failed: 1,
            invalid: 0,
            missing: 1,
            missing_instances: 1,
            total: 3,
            rate: Some(1.0 / 3.0),
            rate_interval: Some(Interval(0.061, 0.792)),
            rate_scored: None,
            rate_scored_interval: None,
        };
        let bar = bar(&row);
        let pieces: Vec<_> = bar.pieces.iter().map(|p| (p.kind, p.x, p.width)).collect();
        assert_eq!(pieces, [("pass", 0, 333), ("fail", 333, 334), ("missing", 667, 333)]);
        assert_eq!(bar.interval, Some((61, 792)));
        assert_eq!(share(1, 0), 0);
    }
}
