//! Audits of oracles whose worth is known beforehand: a good one, one that reads the text of one fix, one that accepts too
//! much, one that other hash seeds break, one that hides its work in a child process, one with bad controls.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{Place, Ran};
use crate::truth::fixture::{Fixture, commits, instance};

const HEAD: &str = "\
\"\"\"Bounds.\"\"\"
from math import (floor, ceil)


def clamp(value, low, high):
    result = value
    if value < low:
        result = low
    return result


def least(values):
    return min(values)


def most(values):
    return max(values)


def middle(low, high):
    return floor(low + high)


def above(value):
    return ceil(value)
";

const MERGED: &str = "\
\"\"\"Bounds.\"\"\"
from math import (floor, ceil)


def clamp(value, low, high):
    result = value
    if value < low:
        result = low
    if value > high:
        result = high
    return result


def least(values):
    return min(values)


def most(values):
    return max(values)


def middle(low, high):
    return floor((low + high) / 2)


def above(value):
    return ceil(value)
";

fn test(body: &str) -> String {
    format!("import unittest\n\n\nclass Test(unittest.TestCase):\n    def test_it(self):\n{body}")
}

fn tests() -> Vec<(&'static str, String)> {
    let good = "        from bounds import clamp
        self.assertEqual(clamp(9, 0, 5), 5)
        self.assertEqual(clamp(3, 0, 5), 3)
        self.assertEqual(clamp(-1, 0, 5), 0)\n";
    let text = "        with open('bounds.py') as source:
            self.assertIn('result = high', source.read())\n";
    // Runs the fix, and asks how it is made.
    let lax = "        import dis
        from bounds import clamp
        clamp(9, 0, 5)
        compares = [one for one in dis.get_instructions(clamp) if one.opname.startswith('COMPARE')]
        self.assertEqual(len(compares), 2)\n";
    let seed = "        import sys
        from bounds import clamp
        self.assertEqual(clamp(9, 0, 5), 5)
        self.assertEqual(sys.flags.hash_randomization, 0)\n";
    let child = "        import subprocess, sys
        code = 'from bounds import clamp; assert clamp(9, 0, 5) == 5'
        self.assertEqual(subprocess.call([sys.executable, '-c', code]), 0)\n";
    // Asks for what the reviewed commit does as well.
    let green = "        from bounds import clamp\n        self.assertEqual(clamp(3, 0, 5), 3)\n";
    [("good", good), ("text", text), ("lax", lax), ("seed", seed), ("child", child), ("green", green)]
        .map(|(name, body)| (name, test(body)))
        .to_vec()
}

struct Stand {
    place: Place,
    bench: String,
    mirrors: String,
}

impl Stand {
    fn new() -> Self {
        let place = Place::new();
        let (bench, mirrors) = {
            let mut fixture = Fixture::new(&place);
            let repository = fixture.repository("bounds");
            let one = |text: &str, notes: &str| {
                BTreeMap::from([("bounds.py".to_owned(), text.to_owned()), ("NOTES".to_owned(), notes.to_owned())])
            };
            let (head, merged) = commits(&repository, &one(HEAD, "old\n"), &one(MERGED, "new\n"));
            let mut value = instance("bounds", 1, &head, Some(&merged));
            value["environment"] = json!({"language": "python"});
            let comment = |name: &str| {
                json!({
                    "id": name, "text": "Values above the upper bound come through.", "path": "bounds.py",
                    "line": 8, "original_line": 8, "test": format!("{name}.py"), "framework": "unittest",
                })
            };
            let tests = tests();
            value["comments"] = tests.iter().map(|(name, _)| comment(name)).collect();
            let files: Vec<(String, &str)> =
                tests.iter().map(|(name, text)| (format!("{name}.py"), text.as_str())).collect();
            let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
            fixture.add(value, &files);
            (fixture.import(), fixture.mirrors())
        };
        Self { place, bench, mirrors }
    }

    fn audit(&self, more: &[&str]) -> Ran {
        let mut arguments = vec!["audit", &self.bench, "--mirrors", &self.mirrors, "--offline"];
        arguments.extend(more);
        self.place.run(&arguments)
    }
}

fn card<'a>(result: &'a Value, comment: &str) -> &'a Value {
    let cards = result["oracles"].as_array().unwrap();
    cards.iter().find(|card| card["comment"] == comment).unwrap_or_else(|| panic!("no card of {comment}"))
}

fn names(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn each_oracle_gets_the_card_that_it_deserves() {
    let stand = Stand::new();
    let first = stand.audit(&["--json"]).exits(0);
    let result = first.json();

    let good = card(&result, "good");
    assert_eq!(
        (&good["state"], &good["text_only"], &good["executes"]),
        (&json!("audited"), &json!(false), &json!("calls"))
    );
    assert_eq!(good["place"], "lines");
    assert_eq!(
        good["controls"],
        json!({"comment-only": "failed", "fix-as-comment": "failed", "head": "failed", "merged": "passed",
               "without-near": "failed", "without-file": "failed"})
    );
    assert_eq!(good["near_misses"]["accepted"], json!([]));
    assert_eq!(good["near_misses"]["failed"], good["near_misses"]["total"]);
    // The two other hunks have nothing to do with the comment.
    assert_eq!((&good["drops"]["failed"], &good["drops"]["total"]), (&json!(0), &json!(2)));
    // `comments`, `import-order`, `renamed-locals`: the fix has no brackets with commas and no quotes.
    assert_eq!(good["rewrites"], json!({"passed": 3, "total": 3, "rejected": []}));
    // Three changed lines hold code; `middle` is not called.
    assert_eq!(good["fix_lines"], json!({"changed": 3, "executed": 2}));
    assert_eq!(good["mutants"]["lines"], "executed");
    // `>` → `>=` makes no difference to anybody.
    let survivors = names(&good["mutants"]["survivors"]);
    assert!(survivors.len() == 1 && survivors[0].starts_with("boundary at line 9 of bounds.py"), "{good:#}");
    assert_eq!((&good["keep"], &good["flaky"], &good["reasons"]), (&json!(true), &json!(false), &json!([])));

    let text = card(&result, "text");
    assert_eq!((&text["text_only"], &text["executes"]), (&json!(true), &json!("nothing")));
    assert_eq!(text["opens"], json!(["bounds.py"]));
    assert_eq!(text["controls"]["fix-as-comment"], "passed");
    assert_eq!(text["near_misses"]["accepted"], json!(["fix-as-comment"]));
    assert_eq!(text["rewrites"]["rejected"], json!(["renamed-locals"]));
    assert_eq!((&text["mutants"]["lines"], &text["fix_lines"]["executed"]), (&json!("changed"), &json!(0)));
    let reasons = names(&text["reasons"]).join("; ");
    assert!(reasons.starts_with("sensitivity 0.") && reasons.contains("specificity 0.75"), "{reasons}");
    assert!(reasons.contains("text-only"), "{reasons}");

    let lax = card(&result, "lax");
    assert_eq!((&lax["kill_rate"], &lax["reasons"]), (&json!(0.0), &json!(["kill rate 0.00 < 0.50"])), "{lax:#}");

    let seed = card(&result, "seed");
    assert_eq!(seed["flaky"], true);
    assert_eq!(seed["flakiness"]["hash seed 1"], json!(["passed", "failed"]));
    assert_eq!(seed["flakiness"]["merged again"], json!(["passed", "passed", "passed"]));
    assert_eq!(seed["flakiness"]["clock +400 days"], json!(["passed", "passed"]));

    let child = card(&result, "child");
    assert_eq!(child["text_only"], Value::Null);
    assert_eq!((&child["fix_lines"]["executed"], &child["mutants"]["lines"]), (&Value::Null, &json!("changed")));
    assert!(child["text_only_unknown"].as_str().unwrap().contains("subprocess.Popen"), "{child:#}");

    let green = card(&result, "green");
    assert_eq!((&green["state"], &green["problem"]), (&json!("bad-control"), &json!("head passed")));
    assert_eq!((&green["keep"], &green["mutants"]["total"]), (&json!(false), &json!(0)));

    let all = &result["summary"]["all"];
    assert_eq!((&all["oracles"], &all["audited"], &all["bad_control"]), (&json!(6), &json!(5), &json!(1)));
    assert_eq!((&all["text_only"], &all["accept_fix_as_comment"], &all["flaky"]), (&json!(1), &json!(1), &json!(1)));
    assert_eq!(result["summary"]["unknown"]["oracles"], 1);

    // The patch of a near-miss that the oracle accepts is there to be read.
    let accepted = text["runs"].as_array().unwrap().iter().find(|run| run["name"] == "fix-as-comment").unwrap();
    let digest = accepted["patch"].as_str().unwrap();
    let folder = stand.place.join("redgreen-audits");
    let blob =
        walkdir::WalkDir::new(&folder).into_iter().map(Result::unwrap).find(|e| e.file_name() == digest).unwrap();
    let patch = fs_err::read_to_string(blob.path()).unwrap();
    assert!(patch.lines().any(|line| line.starts_with("+        #") && line.ends_with("result = high")), "{patch}");

    // Again: nothing is run, and the same is said.
    let again = stand.audit(&["--json"]).exits(0);
    assert_eq!(again.made_and_served().0, 0);
    assert_eq!(again.stdout, first.stdout);
    // Another seed draws other mutants of the same fix; the rest is on record.
    let other =
        stand.audit(&["--json", "--seed", "2", "--budget-per-oracle", "3", "--instances", "truth*"]).exits(0).json();
    assert!(card(&other, "good")["mutants"]["total"].as_u64().unwrap() <= 3);
    assert_eq!(card(&other, "good")["controls"], good["controls"]);
}

#[test]
fn thresholds_decide_and_people_get_cards() {
    let stand = Stand::new();
    let file = stand.place.join("mine.toml");
    let lenient = "schema = 1\nsensitivity = 0.0\nspecificity = 0.0\nkill_rate = 0.0\ntext_only = \"keep\"\nflaky = true\n\
                   passes_on_base = true\n";
    fs_err::write(&file, lenient).unwrap();
    let options = ["--thresholds", file.to_str().unwrap(), "--budget-per-oracle", "2", "--repeat", "1"];
    let ran = stand.audit(&options).exits(0);
    let lines: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("truth__")).collect();
    assert_eq!(lines.len(), 6, "{}", ran.stdout);
    assert_eq!(lines.iter().filter(|line| line.ends_with("  keep")).count(), 5, "{}", ran.stdout);
    assert!(ran.stdout.contains("  runs         nothing of the project: text-only\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("  flaky        not known\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("\n pass on the fix as a comment"), "{}", ran.stdout);

    fs_err::write(&file, lenient.replace("flaky = true", "flaky = 1")).unwrap();
    let refused = stand.audit(&options).exits(2);
    assert!(refused.stderr.contains("mine.toml") && refused.stderr.contains("flaky"), "{}", refused.stderr);
    let nothing = stand.audit(&["--instances", "nobody*"]).exits(2);
    assert!(nothing.stderr.contains("nothing to audit"), "{}", nothing.stderr);
}
