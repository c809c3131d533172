//! What the recorded texts say.

use crate::model::Framework;

/// The first failing assertion's line of a recorded pytest output: the first line that starts with `E `, without the
/// mark.
pub(super) fn first_line(output: &str) -> Option<String> {
    let line = output.lines().find_map(|line| line.strip_prefix("E "))?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// The framework of a generated test, by its language.
pub(super) fn framework(language: &str) -> Option<Framework> {
    match language {
        "python" => Some(Framework::Pytest),
        "javascript" | "typescript" => Some(Framework::Jest),
        "go" => Some(Framework::Go),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_assertion_line_is_without_its_mark() {
        let output =
            "collected 1 item\n    def test():\n>       assert 1 == 2\nE       assert 1 == 2\nE        +  where\n";
        assert_eq!(first_line(output).unwrap(), "assert 1 == 2");
        assert_eq!(first_line("Error: x\nEND\n E no"), None);
        assert_eq!(first_line("E   \nx"), None);
    }
}
