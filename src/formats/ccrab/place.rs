//! Which file of a release is what, by its path.

/// The step of the method that a file belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Test generation.
    Testgen,
    /// Agent resolution.
    Resolution,
    /// The evaluation of this tool.
    Evaluation(String),
    /// The list of instances that the filter kept.
    InstanceList,
}

/// A file's place in a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The step.
    pub step: Step,
    /// The instance's folder; empty for the list.
    pub folder: String,
    /// The file's name.
    pub file: String,
}

/// Finds a file's place by its path with `/` between parts; `None` when it is no part of the results.
///
/// Known forms, below any other folders: `testgen*/ID/FILE`, `agent_resolution*/ID/FILE`, `results_eval_TOOL/ID/FILE`,
/// `results_eval_combined/TOOL/ID/FILE`, `instance-ids.txt`.
pub fn place(path: &str) -> Option<Place> {
    let parts: Vec<&str> = path.split('/').collect();
    let (file, rest) = parts.split_last()?;
    if *file == "instance-ids.txt" {
        return Some(Place { step: Step::InstanceList, folder: String::new(), file: (*file).to_owned() });
    }
    let (folder, rest) = rest.split_last()?;
    let (step, above) = rest.split_last()?;
    let step = if above.last() == Some(&"results_eval_combined") {
        Step::Evaluation((*step).to_owned())
    } else if let Some(tool) =
        step.strip_prefix("results_eval_").filter(|t| !t.is_empty() && !t.starts_with("combined"))
    {
        Step::Evaluation(tool.to_owned())
    } else if step.starts_with("testgen") {
        Step::Testgen
    } else if step.starts_with("agent_resolution") {
        Step::Resolution
    } else {
        return None;
    };
    // Instance folders have a commit in their name; `testgen/tests/x.py` of the program itself does not.
    let is_instance = folder.contains('@') && !file.is_empty();
    is_instance.then(|| Place { step, folder: (*folder).to_owned(), file: (*file).to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_layout_has_a_place_and_the_rest_has_none() {
        let step = |path: &str| place(path).map(|p| (p.step, p.folder, p.file));
        let want = |step, file: &str| Some((step, "o__r-1@abcdef0".to_owned(), file.to_owned()));
        assert_eq!(step("testgen_combined/o__r-1@abcdef0/result.json"), want(Step::Testgen, "result.json"));
        assert_eq!(step("x/y/testgen/o__r-1@abcdef0/t.py"), want(Step::Testgen, "t.py"));
        assert_eq!(step("agent_resolution_combined/o__r-1@abcdef0/result.json"), want(Step::Resolution, "result.json"));
        let codex = || Step::Evaluation("codex".to_owned());
        assert_eq!(step("results_eval_codex/o__r-1@abcdef0/result.json"), want(codex(), "result.json"));
        assert_eq!(step("a/results_eval_combined/codex/o__r-1@abcdef0/result.json"), want(codex(), "result.json"));
        assert_eq!(place("results_preprocessed/instance-ids.txt").unwrap().step, Step::InstanceList);
        for path in
            ["result.json", "o__r-1@abcdef0/result.json", "testgen/x/y.py", "pipeline/o__r-1@a/x", "", "/", "a//b"]
        {
            assert_eq!(place(path), None, "{path}");
        }
    }
}
