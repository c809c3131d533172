//! Paths that a benchmark's rows give: relative, with `/` between parts, never leading outside.

/// Why a path is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// Nothing there.
    #[error("the path is empty")]
    Empty,
    /// It starts at the root of a file system, or names a drive.
    #[error("the path is absolute; give it relative to the folder")]
    Absolute,
    /// It goes up.
    #[error("the path has a `..` part and could leave the folder")]
    Parent,
    /// Backslashes, control characters, empty or `.` parts: it would mean different things on different systems.
    #[error("the path has a part that is empty or `.`, a backslash, or a control character; use plain `a/b/c`")]
    Odd,
    /// It would write into git's own files.
    #[error("the path goes into `.git`")]
    Git,
}

/// Checks a path that must stay below the folder it is relative to, by its text alone (symbolic links are another
/// question).
///
/// # Errors
/// Why the path is refused.
pub fn check_relative(path: &str) -> Result<(), PathProblem> {
    if path.is_empty() {
        return Err(PathProblem::Empty);
    }
    let drive = path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic();
    if path.starts_with('/') || drive {
        return Err(PathProblem::Absolute);
    }
    if path.contains('\\') || path.chars().any(char::is_control) {
        return Err(PathProblem::Odd);
    }
    for part in path.split('/') {
        match part {
            ".." => return Err(PathProblem::Parent),
            "" | "." => return Err(PathProblem::Odd),
            _ => {}
        }
    }
    Ok(())
}

/// Checks an `install_as`: as [`check_relative`], and never into `.git`.
///
/// # Errors
/// Why the path is refused.
pub fn check_install_as(path: &str) -> Result<(), PathProblem> {
    check_relative(path)?;
    // Git itself compares this name without case on file systems that do.
    if path.split('/').any(|part| part.eq_ignore_ascii_case(".git")) {
        return Err(PathProblem::Git);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_could_leave_the_folder_are_refused() {
        for (path, problem) in [
            ("", PathProblem::Empty),
            ("/etc/passwd", PathProblem::Absolute),
            ("C:/x", PathProblem::Absolute),
            ("a/../../b", PathProblem::Parent),
            ("..", PathProblem::Parent),
            ("a//b", PathProblem::Odd),
            ("./a", PathProblem::Odd),
            ("a\\..\\b", PathProblem::Odd),
            ("a\nb", PathProblem::Odd),
            ("a/", PathProblem::Odd),
        ] {
            assert_eq!(check_install_as(path), Err(problem), "{path}");
        }
        assert_eq!(check_install_as("sub/.GIT/hooks/x"), Err(PathProblem::Git));
        for path in ["a", "a/b.py", "..a/b", ".github/x", "a b/ü.py"] {
            assert_eq!(check_install_as(path), Ok(()), "{path}");
        }
    }
}
