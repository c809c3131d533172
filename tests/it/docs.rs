//! README, `docs/` and `--help` against the program: examples parse, commands exist, links lead somewhere, the schema fits.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use redgreen::environment::Definitions;
use redgreen::llm::Call;
use redgreen::model::{
    Attrition, BenchManifest, EnvironmentSpec, FilterRow, Instance, RecordedVerdict, Review, Revision, SynthRow,
    ValidationRow, WirePrediction,
};
use redgreen::stage::audit::Thresholds;
use redgreen::store::RunManifest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::support::{Place, Ran, binary, root};

const PAGES: &[&str] = &[
    "README.md",
    "docs/ARCHITECTURE.md",
    "docs/AUDIT.md",
    "docs/BUILD-A-BENCHMARK.md",
    "docs/ENVIRONMENTS.md",
    "docs/FORMATS.md",
    "docs/HOSTILE.md",
    "docs/LEAKS.md",
    "docs/MODELS.md",
    "docs/SANDBOX.md",
    "docs/SYNTH.md",
    "docs/VERDICTS.md",
    "examples/quickstart/README.md",
];

fn page(name: &str) -> String {
    fs_err::read_to_string(root().join(name)).unwrap()
}

/// The fenced blocks of a page: what stands after the fence, and the text.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => open = Some((info.trim().to_owned(), String::new())),
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some((_, body))) => {
                body.push_str(line);
                body.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    found
}

/// Reads an example with its real type, which must know every field of it, and writes it back.
fn known<T: DeserializeOwned + Serialize>(text: &str, extra: impl Fn(&T) -> usize) -> Value {
    let row: T = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(extra(&row), 0, "a field of this example has no place in its type:\n{text}");
    serde_json::to_value(row).unwrap()
}

/// Every example of a file is one of the type that its fence names, and the page tells of all of the type's fields.
#[test]
fn examples_of_files_parse_with_the_real_types() {
    let text = page("docs/FORMATS.md");
    let pages = PAGES.iter().map(|name| page(name)).collect::<Vec<_>>().join("\n");
    let mut kinds = BTreeSet::new();
    for (info, body) in blocks(&pages) {
        let Some(kind) = info.strip_prefix("json ") else {
            assert_ne!(info, "json", "say after the fence of what kind this is:\n{body}");
            continue;
        };
        let read = match kind {
            "bench" => known::<BenchManifest>(&body, |r| r.extra.len()),
            "dataset" => known::<Instance>(&body, |r| {
                let comments: usize = r.reference_review_comments.iter().map(|c| c.extra.len()).sum();
                let oracles: usize = r.oracles.iter().map(|o| o.extra.len()).sum();
                let environment = r.environment.as_ref().map_or(0, |e| e.extra.len());
                r.extra.len() + r.commit_to_review.extra.len() + comments + oracles + environment
            }),
            "environment" => known::<EnvironmentSpec>(&body, |r| r.extra.len()),
            "environment-row" => {
                let row: Value = serde_json::from_str(&body).unwrap();
                assert!(row["repo"].as_str().unwrap().contains('/'));
                known::<EnvironmentSpec>(&row["environment"].to_string(), |r| r.extra.len())
            }
            "review" => {
                known::<Review>(&body, |r| r.extra.len() + r.findings.iter().map(|f| f.extra.len()).sum::<usize>())
            }
            "revision" => known::<Revision>(&body, |r| r.extra.len()),
            "prediction" => known::<WirePrediction>(&body, |r| r.extra.len()),
            "recorded" => known::<RecordedVerdict>(&body, |r| r.extra.len()),
            "attrition" => known::<Attrition>(&body, |r| r.extra.len()),
            "filter" => known::<FilterRow>(&body, |r| r.extra.len()),
            "call" => known::<Call>(&body, |r| r.extra.len()),
            "synth" => known::<SynthRow>(&body, |r| r.extra.len()),
            "validate" => known::<ValidationRow>(&body, |r| r.extra.len()),
            "manifest" => known::<RunManifest>(&body, |_| 0),
            "instance" => {
                let read = redgreen::formats::folder::parse(&body).unwrap_or_else(|e| panic!("{e}\n{body}"));
                let comments = &read.instance.reference_review_comments;
                let extra = read.instance.extra.len() + comments.iter().map(|c| c.extra.len()).sum::<usize>();
                assert_eq!(extra, 0, "a field of this example has no place in its type:\n{body}");
                assert_eq!(read.tests.len(), comments.len());
                serde_json::from_str(&body).unwrap()
            }
            other => panic!("nobody knows how to read `json {other}`"),
        };
        for field in fields(&read) {
            assert!(text.contains(&format!("`{field}`")), "docs/FORMATS.md does not tell of `{field}` ({kind})");
        }
        kinds.insert(kind.to_owned());
    }
    assert_eq!(kinds.len(), 15, "{kinds:?}");
}

/// The names of all fields of a row, those of variables and the like left out.
fn fields(row: &Value) -> Vec<String> {
    const FREE: [&str; 4] = ["variables", "usage", "trajectory", "metadata"];
    let mut found = Vec::new();
    match row {
        Value::Object(map) => {
            for (name, value) in map {
                found.push(name.clone());
                if !FREE.contains(&name.as_str()) {
                    found.extend(fields(value));
                }
            }
        }
        Value::Array(items) => found.extend(items.iter().flat_map(fields)),
        _ => {}
    }
    found
}

/// The definition that docs/ENVIRONMENTS.md shows is one.
#[test]
fn the_example_of_a_definition_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let text = page("docs/ENVIRONMENTS.md");
    let shown: Vec<_> = blocks(&text).into_iter().filter(|(info, _)| info == "toml definition").collect();
    assert_eq!(shown.len(), 1);
    fs_err::write(folder.path().join("perl.toml"), &shown[0].1).unwrap();
    let definitions = Definitions::load(&[folder.path().to_owned()]).unwrap();
    assert_eq!(definitions.get("pl").unwrap().name, "perl");
}

/// The thresholds that docs/AUDIT.md shows are the built-in ones.
#[test]
fn the_example_of_thresholds_is_read() {
    let text = page("docs/AUDIT.md");
    let shown: Vec<_> = blocks(&text).into_iter().filter(|(info, _)| info == "toml thresholds").collect();
    assert_eq!(shown.len(), 1);
    assert_eq!(Thresholds::parse(&shown[0].1, "docs/AUDIT.md").unwrap(), Thresholds::built_in().unwrap());
}

/// The commands of a page, as words: what follows `redgreen` up to a pipe or redirection.
fn commands(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let line = line.strip_prefix("Example: ").unwrap_or(line).trim_start_matches("$ ");
        let Some(rest) = line.strip_prefix("redgreen ").or_else(|| line.strip_prefix("cargo run --release -- ")) else {
            continue;
        };
        let words: Vec<String> = rest
            .split_whitespace()
            .take_while(|word| !matches!(*word, "|" | ">" | "&&" | "#"))
            .map(|word| word.trim_matches(['\'', '"']).to_owned())
            .collect();
        found.push(words);
    }
    found
}

/// The commands of a page's code: fenced, indented, and in backticks.
fn commands_of_page(text: &str) -> Vec<Vec<String>> {
    let mut code: Vec<String> = blocks(text).into_iter().filter(|(i, _)| i == "sh").map(|(_, body)| body).collect();
    code.extend(text.lines().filter(|line| line.starts_with("    ")).map(str::to_owned));
    let inline = regex::Regex::new(r"`(redgreen [a-z][^`]*)`").unwrap();
    code.extend(inline.captures_iter(text).map(|c| c[1].to_owned()));
    commands(&code.join("\n"))
}

/// Every verb with its own verbs, from the program's help.
fn verbs() -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = vec![Vec::new()];
    let mut at = 0;
    while at < found.len() {
        let verb = found[at].clone();
        let help = help(&verb).stdout;
        let listed = help.lines().skip_while(|l| *l != "Commands:").skip(1).take_while(|l| !l.is_empty());
        let below = listed.filter(|l| l.starts_with("  ") && !l.starts_with("   "));
        for name in below.filter_map(|l| l.split_whitespace().next()).filter(|n| *n != "help") {
            found.push(verb.iter().cloned().chain([name.to_owned()]).collect());
        }
        at += 1;
    }
    found
}

fn help(words: &[String]) -> Ran {
    Ran::of(Command::new(binary()).args(words).arg("--help").env("COLUMNS", "120").output().unwrap())
}

/// Clap looks at every word before `--help`, so a verb, option or value that is not there is an error.
#[test]
fn every_command_that_is_shown_exists() {
    let mut shown: Vec<(String, Vec<String>)> = Vec::new();
    for name in PAGES {
        shown.extend(commands_of_page(&page(name)).into_iter().map(|c| ((*name).to_owned(), c)));
    }
    let verbs = verbs();
    assert!(verbs.len() > 12, "{verbs:?}");
    for verb in &verbs {
        let text = help(verb).exits(0).stdout;
        let examples = commands(&text);
        let leads_on = verbs.iter().any(|other| other.len() > verb.len() && other.starts_with(verb));
        assert!(leads_on || !examples.is_empty(), "`redgreen {} --help` has no example:\n{text}", verb.join(" "));
        shown.extend(examples.into_iter().map(|c| (format!("{} --help", verb.join(" ")), c)));
    }
    assert!(shown.len() > 25, "{}", shown.len());
    for (place, words) in shown {
        let ran = help(&words);
        assert_eq!(ran.code, Some(0), "{place}: redgreen {}\n{}", words.join(" "), ran.stderr);
    }
    // The check itself must be able to fail.
    let wrong = |words: &[&str]| help(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>()).code;
    assert_eq!(wrong(&["scare", "x"]), Some(2));
    assert_eq!(wrong(&["score", "x", "--polcy", "strict"]), Some(2));
    assert_eq!(wrong(&["score", "x", "--policy", "lenient"]), Some(2));
}

/// Options and variables that the pages name are there, and the README names every variable.
#[test]
fn options_and_variables_that_are_named_exist() {
    let helps: String = verbs().iter().map(|verb| help(verb).stdout).collect();
    let foreign = ["--security-opt", "--exclude-newer", "--before"];
    let option = regex::Regex::new(r"`(--[a-z][a-z-]+)[^`]*`").unwrap();
    let variable = regex::Regex::new(r"REDGREEN_[A-Z_]+").unwrap();
    let mut sources = String::new();
    for entry in walkdir::WalkDir::new(root().join("src")) {
        let entry = entry.unwrap();
        if entry.file_type().is_file() && entry.path().extension().is_some_and(|e| e == "rs") {
            sources.push_str(&fs_err::read_to_string(entry.path()).unwrap());
        }
    }
    for name in PAGES {
        let text = page(name);
        for found in option.captures_iter(&text) {
            let word = &found[1];
            assert!(foreign.contains(&word) || helps.contains(word), "{name}: {word}");
        }
        for found in variable.find_iter(&text) {
            assert!(sources.contains(&format!("\"{}\"", found.as_str())), "{name}: {}", found.as_str());
        }
    }
    let readme = page("README.md");
    for file in ["common.rs", "score.rs"] {
        let text = fs_err::read_to_string(root().join("src/cli").join(file)).unwrap();
        for found in variable.find_iter(&text) {
            assert!(readme.contains(found.as_str()), "README.md does not tell of {}", found.as_str());
        }
    }
}

/// Links between the pages lead to files and headings that are there.
#[test]
fn links_lead_somewhere() {
    let link = regex::Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    for name in PAGES {
        let text = page(name);
        for found in link.captures_iter(&text) {
            let target = &found[1];
            if target.contains("://") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path: PathBuf = match file {
                "" => root().join(name),
                file => root().join(name).parent().unwrap().join(file),
            };
            assert!(path.exists(), "{name}: {target}");
            let headings: Vec<String> = match heading {
                "" => continue,
                _ => fs_err::read_to_string(&path).unwrap().lines().filter_map(anchor).collect(),
            };
            assert!(headings.iter().any(|h| h == heading), "{name}: {target}\n{headings:?}");
        }
    }
}

/// The anchor of a heading, as it is made on the usual hosts.
fn anchor(line: &str) -> Option<String> {
    let text = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
    let kept = text.trim().to_lowercase().replace(' ', "-");
    Some(kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect())
}

/// The table in the README is the quickstart's, by its model.
#[test]
fn the_table_in_the_readme_is_the_quickstarts() {
    let model: Value = serde_json::from_str(&page("tests/model/quickstart.json")).unwrap();
    let readme = page("README.md");
    let (_, table) = blocks(&readme).into_iter().find(|(_, body)| body.starts_with("quickstart:")).unwrap();
    let rows = model["tables"]["final"].as_array().unwrap();
    for row in rows {
        let line = table.lines().find(|l| l.split_whitespace().next() == row["arm"].as_str()).unwrap();
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let wanted = ["passed", "failed", "invalid", "missing", "total"].map(|f| row[f].as_u64().unwrap());
        assert_eq!(numbers, wanted, "{line}");
    }
    assert!(table.contains(&format!("pass {} of 9", model["overlap"]["final"]["union"])));
}

/// The README's example, from an empty folder to its table.
#[test]
fn the_example_in_the_readme_runs() {
    let place = Place::new();
    let readme = page("README.md");
    let all = blocks(&readme);
    let (_, script) = all.iter().find(|(info, body)| info == "sh" && body.contains("git init")).unwrap();
    // `redgreen` is this build's; everything else is as in the other tests.
    let programs = place.join("programs");
    fs_err::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(binary(), programs.join("redgreen")).unwrap();
    let folder = place.join("empty");
    fs_err::create_dir(&folder).unwrap();
    let mut command = Command::new("sh");
    command.args(["-eu", "-c", script]).current_dir(&folder).env_clear();
    let same = place.command(&[]);
    command.envs(same.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let path = same.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value).unwrap();
    command.env("PATH", format!("{}:{}", programs.display(), path.to_str().unwrap()));
    let ran = Ran::of(command.output().unwrap()).exits(0);
    let (_, table) = all.iter().find(|(_, body)| body.contains(" my-tool ")).unwrap();
    assert!(ran.stdout.contains(table.as_str()), "{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("1 oracle run") && ran.stderr.contains("2 served from records"), "{}", ran.stderr);
}

fn schema_text() -> String {
    // Reports are written and never read back: every field that is always written is required.
    let generator = schemars::generate::SchemaSettings::default().for_serialize().into_generator();
    let schema = generator.into_root_schema_for::<redgreen::report::Report>();
    serde_json::to_string_pretty(&schema).unwrap() + "\n"
}

const SCHEMA: &str = "docs/report.schema.json";

#[test]
fn the_published_schema_is_the_reports() {
    let text = fs_err::read_to_string(root().join(SCHEMA)).unwrap_or_default();
    assert!(text == schema_text(), "write it anew: cargo test --test it write_the_schema -- --ignored");
}

#[test]
#[ignore = "writes docs/report.schema.json anew"]
fn write_the_schema() {
    fs_err::write(root().join(SCHEMA), schema_text()).unwrap();
}

/// A real report fits the published schema; one that lacks a field does not.
#[test]
fn a_real_report_fits_the_schema() {
    let schema: Value = serde_json::from_str(&page(SCHEMA)).unwrap();
    let place = Place::new();
    let bench = root().join("examples/quickstart").display().to_string();
    let run = place.join("run").display().to_string();
    let arguments = ["score", &bench, "--out", &run, "--instances", "*rotate-8*", "--denominator", "all", "--json"];
    let printed = place.run(&arguments).exits(0).json();
    let text = fs_err::read_to_string(place.join("run/report/report.json")).unwrap();
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(printed, written);
    assert_eq!(misfits(&schema, &schema, &printed, "report"), Vec::<String>::new());

    let required = schema["required"].as_array().unwrap();
    for field in ["denominator", "arms", "overlap", "outcomes", "agreement", "verdicts", "policy", "notes"] {
        assert!(required.iter().any(|r| r == field), "{field}");
        let mut broken = printed.clone();
        broken.as_object_mut().unwrap().remove(field);
        assert_eq!(misfits(&schema, &schema, &broken, "report").len(), 1);
    }
    let mut broken = printed.clone();
    broken["arms"][0]["passed"] = "many".into();
    broken["verdicts"][0]["verdict"] = "perhaps".into();
    assert_eq!(misfits(&schema, &schema, &broken, "report").len(), 2);
}

/// Where a value does not fit a schema, as far as our schema uses the language.
fn misfits(whole: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    const UNDERSTOOD: &str = "$schema $defs $ref title description type required properties additionalProperties items \
        prefixItems minItems maxItems anyOf oneOf const enum default format minimum";
    let mut found = Vec::new();
    let Some(rules) = schema.as_object() else {
        return if *schema == Value::Bool(false) { vec![format!("{at}: nothing fits")] } else { found };
    };
    for rule in rules.keys() {
        assert!(UNDERSTOOD.split_whitespace().any(|known| known == rule), "{at}: rule `{rule}`");
    }
    if let Some(name) = schema["$ref"].as_str() {
        let target = whole.pointer(name.trim_start_matches('#')).unwrap();
        found.extend(misfits(whole, target, value, at));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("type `{other}`"),
    };
    if !types.is_empty() && !types.iter().any(|kind| is(kind)) {
        return vec![format!("{at}: {value} is not of type {types:?}")];
    }
    let list = |name: &str| schema[name].as_array().map(Vec::as_slice).unwrap_or_default();
    if schema.get("const").is_some_and(|only| only != value)
        || (!list("enum").is_empty() && !list("enum").contains(value))
    {
        found.push(format!("{at}: {value} is not one of those that are known"));
    }
    for alternatives in ["anyOf", "oneOf"] {
        let none = |some: &[Value]| some.iter().all(|one| !misfits(whole, one, value, at).is_empty());
        if !list(alternatives).is_empty() && none(list(alternatives)) {
            found.push(format!("{at}: {value} fits no alternative"));
        }
    }
    for name in list("required").iter().filter_map(Value::as_str) {
        if value.get(name).is_none() {
            found.push(format!("{at}: there is no `{name}`"));
        }
    }
    for (name, part) in value.as_object().into_iter().flatten() {
        let rule = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
        if let Some(rule) = rule {
            found.extend(misfits(whole, rule, part, &format!("{at}.{name}")));
        }
    }
    for (index, part) in value.as_array().into_iter().flatten().enumerate() {
        let rule = list("prefixItems").get(index).or_else(|| schema.get("items"));
        if let Some(rule) = rule {
            found.extend(misfits(whole, rule, part, &format!("{at}[{index}]")));
        }
    }
    found
}
