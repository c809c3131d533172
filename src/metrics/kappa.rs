//! Agreement of two raters beyond chance, and what one of them gets right.

use schemars::JsonSchema;
use serde::Serialize;

use super::Interval;

/// The two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// How two raters put the same things into classes. `matrix[i][j]` counts what the first one put into class `i` and the
/// second one into class `j`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Confusion {
    /// The classes' names.
    pub classes: Vec<String>,
    /// Counts: rows are the first rater's classes, columns the second's.
    pub matrix: Vec<Vec<usize>>,
}

/// Cohen's kappa (J. Cohen, Educational and Psychological Measurement 20, 1960).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Kappa {
    /// How many things both rated.
    pub n: usize,
    /// The part on which they agree.
    pub observed: f64,
    /// The part on which they would agree by chance.
    pub expected: f64,
    /// (observed - expected) / (1 - expected). `None` where both put everything into one class: chance explains all.
    pub kappa: Option<f64>,
    /// Its 95 % interval from the large-sample variance (J. L. Fleiss, J. Cohen, B. S. Everitt, Psychological Bulletin 72,
    /// 1969), cut to -1 and 1. With few things it is too narrow.
    pub interval: Option<Interval>,
}

/// One class, the first rater being right.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ClassScore {
    /// The class.
    pub class: String,
    /// How often the first rater chose it.
    pub gold: usize,
    /// How often the second one did.
    pub chosen: usize,
    /// Of what the second one put into it, the part that is right.
    pub precision: Option<f64>,
    /// Of what belongs to it, the part that the second one found.
    pub recall: Option<f64>,
}

impl Confusion {
    /// Counts pairs of class numbers; numbers beyond `classes` are left out.
    pub fn of(classes: &[&str], pairs: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let size = classes.len();
        let mut matrix = vec![vec![0; size]; size];
        for (a, b) in pairs {
            if a < size && b < size {
                matrix[a][b] += 1;
            }
        }
        Self { classes: classes.iter().map(|class| (*class).to_owned()).collect(), matrix }
    }

    /// Kappa; `None` when there is nothing to count.
    pub fn kappa(&self) -> Option<Kappa> {
        let size = self.classes.len();
        let total: usize = self.matrix.iter().flatten().sum();
        if total == 0 {
            return None;
        }
        let n = total as f64;
        let part = |i: usize, j: usize| self.matrix[i][j] as f64 / n;
        let row: Vec<f64> = (0..size).map(|i| (0..size).map(|j| part(i, j)).sum()).collect();
        let column: Vec<f64> = (0..size).map(|j| (0..size).map(|i| part(i, j)).sum()).collect();
        let observed: f64 = (0..size).map(|i| part(i, i)).sum();
        let expected: f64 = (0..size).map(|i| row[i] * column[i]).sum();
        if 1.0 - expected < 1e-12 {
            return Some(Kappa { n: total, observed, expected, kappa: None, interval: None });
        }
        let kappa = (observed - expected) / (1.0 - expected);
        let mut sum = 0.0;
        for i in 0..size {
            sum += part(i, i) * ((1.0 - expected) - (row[i] + column[i]) * (1.0 - observed)).powi(2);
            for j in (0..size).filter(|j| *j != i) {
                sum += (1.0 - observed).powi(2) * part(i, j) * (column[i] + row[j]).powi(2);
            }
        }
        sum -= (observed * expected - 2.0 * expected + observed).powi(2);
        let half = Z * (sum.max(0.0) / (n * (1.0 - expected).powi(4))).sqrt();
        let interval = Interval((kappa - half).max(-1.0), (kappa + half).min(1.0));
        Some(Kappa { n: total, observed, expected, kappa: Some(kappa), interval: Some(interval) })
    }

    /// Precision and recall of each class.
    pub fn scores(&self) -> Vec<ClassScore> {
        let size = self.classes.len();
        let rate = |part: usize, whole: usize| (whole > 0).then(|| part as f64 / whole as f64);
        (0..size)
            .map(|i| {
                let gold: usize = self.matrix[i].iter().sum();
                let chosen: usize = self.matrix.iter().map(|row| row[i]).sum();
                ClassScore {
                    class: self.classes[i].clone(),
                    gold,
                    chosen,
                    precision: rate(self.matrix[i][i], chosen),
                    recall: rate(self.matrix[i][i], gold),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confusion(matrix: &[&[usize]]) -> Confusion {
        let names = ["a", "b", "c"];
        let pairs = matrix.iter().enumerate().flat_map(|(i, row)| {
            row.iter().enumerate().flat_map(move |(j, count)| std::iter::repeat_n((i, j), *count))
        });
        Confusion::of(&names[..matrix.len()], pairs)
    }

    /// Values by an independent computation: the delta method with numeric derivatives of kappa in each cell.
    #[test]
    fn kappa_and_its_interval() {
        for (matrix, wanted, low, high) in [
            (&[&[20, 5][..], &[10, 15][..]][..], 0.4, 0.15109, 0.64891),
            (&[&[75, 1, 4][..], &[5, 4, 1][..], &[0, 0, 10][..]][..], 0.676_471, 0.50458, 0.84837),
        ] {
            let found = confusion(matrix).kappa().unwrap();
            let Interval(a, b) = found.interval.unwrap();
            assert!((found.kappa.unwrap() - wanted).abs() < 1e-5, "{found:?}");
            assert!((a - low).abs() < 1e-4 && (b - high).abs() < 1e-4, "{found:?}");
        }
        assert_eq!(confusion(&[&[0, 0], &[0, 0]]).kappa(), None);
        let one = confusion(&[&[7, 0], &[0, 0]]).kappa().unwrap();
        assert_eq!((one.observed, one.kappa, one.interval), (1.0, None, None));
        let opposite = confusion(&[&[0, 5], &[5, 0]]).kappa().unwrap();
        assert!((opposite.kappa.unwrap() + 1.0).abs() < 1e-12);
    }

    #[test]
    fn classes_have_precision_and_recall() {
        let scores = confusion(&[&[20, 5], &[10, 15]]).scores();
        assert_eq!((scores[0].gold, scores[0].chosen), (25, 30));
        assert!(
            (scores[0].precision.unwrap() - 2.0 / 3.0).abs() < 1e-12 && (scores[0].recall.unwrap() - 0.8).abs() < 1e-12
        );
        assert_eq!(confusion(&[&[1, 0], &[0, 0]]).scores()[1].recall, None);
    }
}
