//! A real model, where somebody serves one: `docs/MODELS.md` tells how. It is about plumbing; what the model thinks of the
//! comments is printed and not asserted.

use serde_json::{Value, json};

use super::filter::{files, total};
use crate::support::{Place, host, loudly};

/// Twenty comments: text, file, line of code that they are on.
const COMMENTS: [(&str, &str, &str); 20] = [
    (
        "An empty list makes this divide by zero. Return 0 in that case.",
        "stats.py",
        "+    return sum(values) / len(values)",
    ),
    ("Nice, this reads much better now, thank you for the work!", "stats.py", "+def mean(values):"),
    ("The file stays open when parsing fails; use a with block.", "load.py", "+    file = open(path)"),
    ("Could we find a better name than `tmp2` here?", "load.py", "+    tmp2 = parse(line)"),
    (
        "This compares with `is`, which is false for equal large numbers. Use `==`.",
        "cart.py",
        "+    if count is limit:",
    ),
    ("I wonder how other teams do this kind of thing.", "cart.py", "+class Cart:"),
    (
        "A negative quantity is accepted and lowers the total. Please raise a ValueError.",
        "cart.py",
        "+        self.total += price * quantity",
    ),
    (
        "The user name goes into the query as it is: that is an injection. Use a parameter.",
        "users.py",
        "+    db.execute(f\"select * from users where name = '{name}'\")",
    ),
    (
        "Each call reads the whole file again; with ten thousand rows this takes minutes. Keep the rows.",
        "rows.py",
        "+    for row in read_all(path):",
    ),
    ("Please add a docstring that says what the unit of the timeout is.", "net.py", "+def connect(host, timeout):"),
    (
        "On Windows the separator is another one, so this splits nothing there. Use os.path.",
        "paths.py",
        "+    parts = path.split('/')",
    ),
    (
        "The exception is swallowed here and the caller thinks that all went well. Let it through.",
        "net.py",
        "+    except OSError: pass",
    ),
    ("Why did you choose 30 here?", "net.py", "+RETRIES = 30"),
    (
        "This helper is the same as `trim_all` in text.py; call that one instead.",
        "words.py",
        "+def strip_every(words):",
    ),
    (
        "The default argument is a list that all calls share. Use None and make a new one.",
        "words.py",
        "+def add(word, words=[]):",
    ),
    ("There is no test for the case that the key is missing. Please write one.", "test_words.py", "+def test_add():"),
    ("Sorting changes the caller's list. Sort a copy.", "rank.py", "+    scores.sort()"),
    (
        "Older clients send `colour` as well; without it they get an error now. Accept both spellings.",
        "api.py",
        "+    color = body['color']",
    ),
    ("Let's discuss the architecture in the next meeting.", "api.py", "+class Api:"),
    ("The loop ends one too early: the last page is never fetched.", "pages.py", "+    for page in range(1, pages):"),
];

fn bench(place: &Place) {
    let comments: Vec<Value> = COMMENTS
        .iter()
        .enumerate()
        .map(|(n, (text, path, code))| {
            json!({"id": format!("c{}", n + 1), "text": text, "path": path, "diff_hunk": format!("@@ -0,0 +1 @@\n{code}")})
        })
        .collect();
    let row = json!({
        "instance_id": "larch-example__shop-1@0123abc", "repo": "larch-example/shop", "language": "Python", "title": "A small shop",
        "commit_to_review": {"head_commit": "0123abc"}, "reference_review_comments": comments,
    });
    fs_err::create_dir(place.join("bench")).unwrap();
    fs_err::write(place.join("bench/bench.json"), "{\"schema\": 1, \"name\": \"twenty\"}").unwrap();
    fs_err::write(place.join("bench/dataset.jsonl"), format!("{row}\n")).unwrap();
}

#[test]
#[ignore = "needs a served model: TEST_MODEL_URL, and minutes"]
fn local_model() {
    let Some(url) = host("TEST_MODEL_URL") else {
        loudly("LEFT OUT, as TEST_MODEL_URL names no server: a real model");
        return;
    };
    let model = host("TEST_MODEL").unwrap_or_else(|| "qwen2.5-coder-1.5b".to_owned());
    let place = Place::new();
    bench(&place);
    fs_err::write(
        place.join("prices.toml"),
        format!("schema = 1\n[[model]]\nname = \"{model}\"\ninput = 0\noutput = 0\nwindow = 8192\n"),
    )
    .unwrap();
    let words = [
        "filter",
        "bench",
        "--out",
        "out",
        "--llm",
        "record:tape.jsonl",
        "--llm-jobs",
        "1",
        "--prices",
        "prices.toml",
        "--json",
    ];
    let began = std::time::Instant::now();
    let ran =
        place.run(&[&words[..], &["--model", &model, "--base-url", &url, "--max-tokens", "300"]].concat()).exits(0);
    loudly(&format!("{}{:.0} s in all\n{}", ran.stderr, began.elapsed().as_secs_f64(), ran.stdout));
    let summary = ran.json();
    assert_eq!((total(&summary), &summary["comments"]), (20, &json!(20)));
    assert_eq!(summary["open"], json!({}));
    let calls = &summary["calls"];
    assert!(calls["calls"].as_u64().unwrap() >= 18, "two comments at most are too short for it: {calls}");
    assert!(
        calls["usage"]["input"].as_u64().unwrap() + calls["usage"]["cache_read"].as_u64().unwrap() > 5000,
        "{calls}"
    );
    assert!(calls["usage"]["output"].as_u64().unwrap() > 500, "{calls}");
    assert_eq!((&calls["usd"], &calls["unpriced"]), (&json!(0.0), &json!(0)));
    // The same answers without the model.
    let replay = [
        "filter",
        "bench",
        "--llm",
        "replay:tape.jsonl",
        "--max-tokens",
        "300",
        "--prices",
        "prices.toml",
        "--json",
        "--out",
    ];
    place.run(&[&replay[..], &["one"]].concat()).exits(0);
    place.run(&[&replay[..], &["two"]].concat()).exits(0);
    assert_eq!(files(&place, "one"), files(&place, "two"));
    assert_eq!(files(&place, "one")["filter.jsonl"], files(&place, "out")["filter.jsonl"]);
}
