//! npm's ranges as intervals of versions, without pre-releases: which releases of node a project takes.

type Version = [u64; 3];

/// From the first version (included) to the second (excluded); without a second, to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval(Version, Option<Version>);

/// The highest number that is read; higher ones are nobody's version.
const MAX_NUMBER: u64 = 1_000_000_000;

impl Interval {
    const ALL: Self = Self([0; 3], None);

    /// Whether the two have a version in common.
    pub fn meets(self, other: Self) -> bool {
        let both = self.and(other);
        both.1.is_none_or(|end| both.0 < end)
    }

    fn and(self, other: Self) -> Self {
        let end = match (self.1, other.1) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self(self.0.max(other.0), end)
    }
}

/// All versions of a release such as `20` or `0.12`.
pub(super) fn of_release(release: &str) -> Option<Interval> {
    let partial = Partial::parse(release)?;
    Some(Interval(partial.lowest(), partial.after()))
}

/// The alternatives of a range.
pub(super) fn intervals(text: &str) -> Result<Vec<Interval>, String> {
    text.split("||").map(|part| alternative(part).ok_or_else(|| format!("`{text}` is no range of versions"))).collect()
}

/// Comparators that must all hold.
fn alternative(text: &str) -> Option<Interval> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match words.last_mut() {
            Some(last) if last.chars().all(|c| "<>=~^".contains(c)) => last.push_str(word),
            _ => words.push(word.to_owned()),
        }
    }
    if let [from, dash, to] = words.as_slice()
        && dash == "-"
    {
        let (from, to) = (Partial::parse(from)?, Partial::parse(to)?);
        return Some(Interval(from.lowest(), to.after()));
    }
    words.iter().try_fold(Interval::ALL, |all, word| Some(all.and(comparator(word)?)))
}

fn comparator(word: &str) -> Option<Interval> {
    let operators = ["^", "~>", "~", ">=", "<=", ">", "<", "="];
    let operator = operators.into_iter().find(|operator| word.starts_with(operator)).unwrap_or_default();
    let partial = Partial::parse(&word[operator.len()..])?;
    let (lowest, after) = (partial.lowest(), partial.after());
    let numbers = &partial.0;
    Some(match operator {
        ">=" => Interval(lowest, None),
        // Nothing is beyond everything.
        ">" => Interval(after.unwrap_or([u64::MAX; 3]), None),
        "<" => Interval([0; 3], Some(lowest)),
        "<=" => Interval([0; 3], after),
        "^" => {
            let fixed = numbers.iter().position(|&n| n > 0).or(numbers.len().checked_sub(1));
            Interval(lowest, fixed.and_then(|fixed| bumped(numbers, fixed)))
        }
        "~" | "~>" => Interval(lowest, numbers.len().checked_sub(1).and_then(|last| bumped(numbers, last.min(1)))),
        _ => Interval(lowest, after),
    })
}

/// The first version after all that agree with these numbers up to and with the one at `position`.
fn bumped(numbers: &[u64], position: usize) -> Option<Version> {
    let mut out = [0; 3];
    out[..position].copy_from_slice(numbers.get(..position)?);
    out[position] = numbers.get(position)? + 1;
    Some(out)
}

/// A version of which the end may be missing, or be an `x`.
struct Partial(Vec<u64>);

impl Partial {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        // A pre-release counts as its release, and what was built from it is the same.
        let text = text.split(['-', '+']).next()?;
        let parts: Vec<&str> = text.split('.').collect();
        if parts.len() > 3 || text.is_empty() {
            return None;
        }
        let wild = |part: &&str| matches!(*part, "x" | "X" | "*");
        let known = parts.iter().take_while(|part| !wild(part)).count();
        if !parts[known..].iter().all(wild) {
            return None;
        }
        let number = |part: &&str| {
            let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| part.parse().ok()).flatten().filter(|n| *n < MAX_NUMBER)
        };
        parts[..known].iter().map(number).collect::<Option<Vec<u64>>>().map(Self)
    }

    fn lowest(&self) -> Version {
        let mut out = [0; 3];
        out[..self.0.len()].copy_from_slice(&self.0);
        out
    }

    /// The first version after all that this may be.
    fn after(&self) -> Option<Version> {
        bumped(&self.0, self.0.len().checked_sub(1)?)
    }
}
