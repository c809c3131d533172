//! Intervals for a proportion.

use schemars::JsonSchema;
use serde::Serialize;

/// A 95 % interval of a proportion, both ends between 0 and 1. In JSON a list of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Interval(pub f64, pub f64);

/// The two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// Wilson's score interval without continuity correction (E. B. Wilson, JASA 22, 1927) at 95 %: `passed` of `total`
/// comments. `None` when there is nothing to count.
///
/// It treats comments as independent, which those of one instance are not quite; read it as a lower bound of the doubt.
pub fn wilson_95(passed: usize, total: usize) -> Option<Interval> {
    if total == 0 {
        return None;
    }
    let n = total as f64;
    let p = passed.min(total) as f64 / n;
    let z2 = Z * Z;
    let centre = p + z2 / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z2 / n;
    Some(Interval(((centre - half) / scale).max(0.0), ((centre + half) / scale).min(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values printed in R. G. Newcombe, Statistics in Medicine 17 (1998) 857-872, table I, method 3.
    #[test]
    fn the_interval_equals_published_values() {
        for (passed, total, low, high) in
            [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)]
        {
            let Interval(a, b) = wilson_95(passed, total).unwrap();
            assert!((a - low).abs() < 5e-5 && (b - high).abs() < 5e-5, "{passed}/{total}: {a} {b}");
        }
        assert_eq!(wilson_95(0, 0), None);
        let Interval(low, high) = wilson_95(20, 20).unwrap();
        assert!((low - (1.0 - 0.1611)).abs() < 5e-5 && high == 1.0, "the mirror image of 0/20");
    }
}
