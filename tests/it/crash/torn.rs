//! A power cut: files that the disk had not got yet are empty, cut short or full of zeros afterwards. Never a wrong
//! verdict, never a crash, at most work that is done again.

use std::path::{Path, PathBuf};

use super::stand::{Stand, Template, assert_not_wrong, in_parallel};

/// What is left of a file.
#[derive(Debug, Clone, Copy)]
enum Left {
    Nothing,
    Half,
    Zeros,
    NoFile,
}

const ALL: [Left; 4] = [Left::Nothing, Left::Half, Left::Zeros, Left::NoFile];

impl Left {
    fn apply(self, path: &Path) {
        let bytes = fs_err::read(path).unwrap();
        match self {
            Self::Nothing => fs_err::write(path, "").unwrap(),
            Self::Half => fs_err::write(path, &bytes[..bytes.len() / 2]).unwrap(),
            Self::Zeros => fs_err::write(path, vec![0; bytes.len()]).unwrap(),
            Self::NoFile => fs_err::remove_file(path).unwrap(),
        }
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(folder).sort_by_file_name().into_iter().flatten();
    entries.filter(|e| e.file_type().is_file()).map(walkdir::DirEntry::into_path).collect()
}

/// A kind of file in the run folder.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// All of a folder, or one file.
    All(&'static str),
    /// Rows of one arm.
    Rows(&'static str),
    /// Everything at once.
    Everything,
}

impl Kind {
    fn files(self, stand: &Stand) -> Vec<PathBuf> {
        let run = stand.join("run");
        match self {
            Self::All(name) => files_below(&run.join(name)),
            Self::Rows(arm) => {
                let rows = files_below(&run.join("rows"));
                let of_arm = format!("\"arm\":\"{arm}\"");
                rows.into_iter().filter(|row| fs_err::read_to_string(row).unwrap().contains(&of_arm)).collect()
            }
            Self::Everything => {
                let files = files_below(&run).into_iter();
                files.filter(|file| !file.ends_with("scoring.lock") && !file.ends_with("manifest.json")).collect()
            }
        }
    }
}

#[test]
fn a_run_folder_after_a_power_cut_says_nothing_wrong_and_heals() {
    let template = Template::new();
    let finished = template.stand();
    finished.run("run", None).exits(0);
    let kinds = [
        Kind::All("records"),
        Kind::All("rows"),
        Kind::Rows("head"),
        Kind::Rows("merged"),
        Kind::Rows("fox"),
        Kind::All("blobs"),
        Kind::All("events.jsonl"),
        Kind::All("manifest.json"),
        Kind::All("report"),
        Kind::Everything,
    ];
    let cases: Vec<(Kind, Left)> = kinds.iter().flat_map(|kind| ALL.map(|left| (*kind, left))).collect();
    in_parallel(
        &cases,
        |case| format!("{case:?}"),
        |(kind, left)| {
            let stand = finished.copy();
            let torn = kind.files(&stand);
            assert!(!torn.is_empty());
            torn.iter().for_each(|path| left.apply(path));
            // Before anything is done again: no verdict that is wrong, and no crash.
            let ran = stand.redgreen(&["report", "run", "--json"]);
            match ran.code {
                Some(0) => {
                    let report = ran.json();
                    assert_not_wrong(&report, &template.expected.report);
                    if let (Kind::Rows("head" | "merged"), _) = (kind, left) {
                        let rows = report["verdicts"].as_array().unwrap();
                        let arm = |row: &&serde_json::Value| row["arm"] == "fox";
                        assert!(rows.iter().filter(arm).all(|row| row["verdict"] == "invalid"), "{rows:#?}");
                    }
                    if matches!(
                        (kind, left),
                        (Kind::All("rows") | Kind::Rows(_), Left::Nothing | Left::Half | Left::Zeros)
                    ) {
                        assert!(report["notes"].to_string().contains("rows cannot be read"), "{}", report["notes"]);
                    }
                }
                // Without a manifest or the roster there is no report.
                Some(2 | 3) => assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr),
                code => panic!("{code:?} {}", ran.stderr),
            }
            // Without a manifest it is no run folder, and `--out` says so: nothing is written into a folder of others.
            if matches!((kind, left), (Kind::All("manifest.json"), Left::NoFile)) {
                let ran = stand.run("run", None);
                assert!(ran.code == Some(2) && ran.stderr.contains("is no run folder"), "{}", ran.stderr);
                return;
            }
            stand.run("run", None).exits(0);
            stand.seen("run").assert_is(&template.expected);
            let events = fs_err::read_to_string(stand.join("run/events.jsonl")).unwrap();
            events.lines().for_each(|line| drop(serde_json::from_str::<serde_json::Value>(line).unwrap()));
            stand.assert_clean();
        },
    );
}

#[test]
fn a_cache_after_a_power_cut_is_made_again() {
    let template = Template::new();
    let finished = template.stand();
    finished.run("run-fresh", None).exits(0);
    let expected = finished.seen("run-fresh");
    fs_err::remove_dir_all(finished.join("run-fresh")).unwrap();
    let markers = |stand: &Stand, name: &str| -> Vec<PathBuf> {
        let files = files_below(&stand.join("cache"));
        files.into_iter().filter(|file| file.to_str().unwrap().ends_with(name)).collect()
    };
    let cases: Vec<_> = [".complete", "layer.json"].iter().flat_map(|name| ALL.map(|left| (*name, left))).collect();
    in_parallel(
        &cases,
        |case| format!("{case:?}"),
        |(name, left)| {
            let stand = finished.copy();
            let torn = markers(&stand, name);
            assert!(torn.len() >= 2, "{torn:?}");
            // What the marker vouched for may be anything now.
            for path in &torn {
                let entry =
                    if *name == ".complete" { path.with_extension("") } else { path.parent().unwrap().to_owned() };
                for file in files_below(&entry).into_iter().filter(|file| file != path && !file.ends_with(".git")) {
                    Left::Nothing.apply(&file);
                }
                left.apply(path);
            }
            stand.run("run-fresh", None).exits(0);
            stand.seen("run-fresh").assert_is(&expected);
            assert_eq!(markers(&stand, name).len(), torn.len());
            stand.assert_clean();
        },
    );
}
