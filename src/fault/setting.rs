//! What is asked of fault points.

use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::points::POINTS;

/// What is asked of fault points: where reached ones are counted, and what happens at one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The folder with one file for each point that was reached; its size in bytes is how often.
    pub folder: PathBuf,
    /// What happens, and where.
    pub act: Option<Act>,
    /// The process that was armed first: redgreen itself, not its helpers.
    pub main: u32,
}

/// What happens at one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// The point's name.
    pub point: String,
    /// At which time that it is reached, from 1, counted over all processes of the run.
    pub nth: u64,
    /// What happens.
    pub what: What,
}

/// What happens at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// redgreen's main process dies, as by `kill -9`; a helper that stands at the point waits for that, and goes on.
    Main,
    /// The process that stands at the point dies: the helper alone, or redgreen where it is the main process.
    Own,
    /// redgreen's main process dies, and then the process that stands at the point.
    Both,
    /// The process waits until there is a file `go` in the folder.
    Wait,
}

/// A setting that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// Another form.
    #[error("`{0}` is no fault (use `POINT:N` or `POINT:N:WHAT`, where WHAT is `main`, `own`, `both` or `wait`)")]
    Form(String),
    /// No such point.
    #[error("there is no fault point `{0}`; `src/fault/points.rs` lists them")]
    Unknown(String),
}

impl Setting {
    /// The setting of this process: the values of `REDGREEN_FAULT_FOLDER` (a folder that is there) and `REDGREEN_FAULT`
    /// (see [`Act`]'s string form: `POINT:N` or `POINT:N:WHAT`).
    ///
    /// # Errors
    /// [`FaultError`], when the act has another form or names no point.
    pub fn new(folder: PathBuf, act: Option<&str>) -> Result<Self, FaultError> {
        Ok(Self { folder, act: act.map(str::parse).transpose()?, main: std::process::id() })
    }
}

impl FromStr for Act {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let form = || FaultError::Form(text.to_owned());
        let mut parts = text.split(':');
        let (point, nth) = (parts.next().unwrap_or_default(), parts.next().ok_or_else(form)?);
        let what = match parts.next() {
            None | Some("main") => What::Main,
            Some("own") => What::Own,
            Some("both") => What::Both,
            Some("wait") => What::Wait,
            Some(_) => return Err(form()),
        };
        let nth = nth.parse().ok().filter(|nth| *nth > 0 && parts.next().is_none()).ok_or_else(form)?;
        if !POINTS.iter().any(|known| known.name == point) {
            return Err(FaultError::Unknown(point.to_owned()));
        }
        Ok(Self { point: point.to_owned(), nth, what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_are_read() {
        let act = |text: &str| text.parse::<Act>();
        let name = POINTS[0].name;
        let read = act(&format!("{name}:3:both")).unwrap();
        assert_eq!(read, Act { point: name.to_owned(), nth: 3, what: What::Both });
        assert_eq!(act(&format!("{name}:1")).unwrap().what, What::Main);
        for bad in [name.to_owned(), format!("{name}:0"), format!("{name}:1:x"), format!("{name}:1:own:2")] {
            assert_eq!(act(&bad), Err(FaultError::Form(bad)));
        }
        assert_eq!(act("nowhere:1"), Err(FaultError::Unknown("nowhere".to_owned())));
    }
}
