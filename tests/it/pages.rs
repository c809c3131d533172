//! Reports that people open: `report.html` in a browser, with and without JavaScript, and `junit.xml`.

mod browser;
mod hostile;
mod large;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use redgreen::formats::junit::{self, CaseStatus};
use redgreen::report::html::{Layout, bounds, contexts, write};
use redgreen::report::{build, write_files};
use redgreen::store::RunFolder;
use serde_json::{Value, json};

use self::browser::{Browser, address};
use crate::support::{Place, loudly};

fn page(place: &Place) -> PathBuf {
    place.join("run/report/report.html")
}

/// Nothing but the page itself was asked for, and nobody complained.
#[track_caller]
fn is_quiet(browser: &mut Browser, file: &Path) {
    assert_eq!(browser.requests(), [address(file)]);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

const VISIBLE_ROWS: &str = "document.querySelectorAll('#verdict-table tbody tr:not([hidden])').length";

#[test]
fn the_page_opens_filters_sorts_and_drills_down() {
    let place = Place::scored();
    let report = place.run(&["report", "run", "--json"]).exits(0).json();
    let rows = report["verdicts"].as_array().unwrap();
    let Some(mut browser) = Browser::start("the page in a browser") else { return };
    browser.open_file(&page(&place));
    is_quiet(&mut browser, &page(&place));
    assert_eq!(browser.eval("document.querySelector('h1').textContent"), "quickstart");
    assert_eq!(browser.eval(VISIBLE_ROWS), rows.len());

    // Filters, one by one and together.
    let count = |keep: &dyn Fn(&Value) -> bool| rows.iter().filter(|row| keep(row)).count();
    let choose = |browser: &mut Browser, field: &str, value: &str| {
        browser.eval(&format!(
            "(() => {{ const f = document.forms[0].elements[{0}]; f.value = {1}; if (f.value !== {1}) throw {1}; \
             f.dispatchEvent(new Event('input', {{bubbles: true}})); }})()",
            json!(field),
            json!(value)
        ));
    };
    choose(&mut browser, "verdict", "fail");
    assert_eq!(browser.eval(VISIBLE_ROWS), count(&|r| r["verdict"] == "fail"));
    choose(&mut browser, "arm", "magpie-review");
    let both = count(&|r| r["verdict"] == "fail" && r["arm"] == "magpie-review");
    assert!(both > 1);
    assert_eq!(browser.eval(VISIBLE_ROWS), both);
    assert_eq!(
        browser.eval("document.getElementById('shown').textContent"),
        format!("{both} of {} verdicts", rows.len())
    );
    choose(&mut browser, "reason", "patch");
    assert_eq!(browser.eval(VISIBLE_ROWS), 1);
    browser.click("#filters button[type=reset]");
    browser.wait(&format!("{VISIBLE_ROWS} === {}", rows.len()));
    choose(&mut browser, "mark", "uncontrolled");
    assert_eq!(browser.eval(VISIBLE_ROWS), count(&|r| r["marks"].to_string().contains("uncontrolled")));
    choose(&mut browser, "mark", "");
    choose(&mut browser, "instance", " ROTATE-8 ");
    assert_eq!(browser.eval(VISIBLE_ROWS), count(&|r| r["instance_id"].as_str().unwrap().contains("rotate-8")));
    choose(&mut browser, "instance", "");
    // The end of a comment that the table does not show in full.
    let whole = browser.eval(
        "(() => { const long = [...document.querySelectorAll('[data-text]')].map(e => e.textContent)\
         .find(t => t.length > 180); return long.slice(-25); })()",
    );
    choose(&mut browser, "text", whole.as_str().unwrap());
    assert_eq!(browser.eval(VISIBLE_ROWS), 7, "one comment of seven arms");
    choose(&mut browser, "text", "");

    // Sorting by time, both ways; by the keyboard.
    let times =
        "[...document.querySelectorAll('#verdict-table tbody td:last-child')].map(c => Number(c.dataset.value))";
    browser.click("#verdict-table th:last-child button");
    let sorted = browser.eval(times);
    let numbers: Vec<f64> = sorted.as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect();
    assert_eq!(numbers.len(), rows.len());
    assert!(numbers.is_sorted() && numbers[0] < *numbers.last().unwrap());
    browser.key("Enter", 13, "\r");
    browser.wait("document.querySelector('#verdict-table th:last-child').ariaSort === 'descending'");
    let downwards = browser.eval(times);
    assert!(downwards.as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).rev().is_sorted());

    // From the table to everything behind one verdict.
    let row =
        rows.iter().find(|r| r["arm"] == "magpie-review" && r["verdict"] == "fail" && !r["key"].is_null()).unwrap();
    let (instance, comment) = (row["instance_id"].as_str().unwrap(), row["comment"].as_str().unwrap());
    let link = browser.eval(&format!(
        "[...document.querySelectorAll('#verdict-table tbody tr')].find(r => r.dataset.arm === 'magpie-review' \
         && r.querySelector('a').textContent === {}).querySelector('a').getAttribute('href')",
        json!(format!("{instance} {comment}"))
    ));
    let link = link.as_str().unwrap();
    browser.click(&format!("a[href='{link}']"));
    let body = format!("document.getElementById({})", json!(&link[1..]));
    browser.wait(&format!("{body}.closest('details').open && {body}.checkVisibility()"));
    let text = browser.eval(&format!("{body}.innerText"));
    let text = text.as_str().unwrap();
    for wanted in
        [row["key"].as_str().unwrap(), "isolation", "limits", "wall 120 s", "exit code", "redgreen rerun", "blobs/"]
    {
        assert!(text.contains(wanted), "{wanted} is not in\n{text}");
    }
    // The patch is coloured, here or where the page points to.
    assert!(
        browser.eval(&format!("{body}.closest('section').querySelectorAll('.diff .add').length")).as_u64() > Some(0)
    );
    let around = browser.eval(&format!("{body}.closest('article').innerText"));
    assert!(around.as_str().unwrap().contains("controls: good"), "{around}");
    is_quiet(&mut browser, &page(&place));
}

/// Everything is there without JavaScript: the same text, and what is folded unfolds.
#[test]
fn the_page_is_whole_without_javascript() {
    let place = Place::scored();
    place.run(&["report", "run"]).exits(0);
    let Some(mut browser) = Browser::start("the page without JavaScript") else { return };
    let text = "(() => { const m = document.querySelector('main').cloneNode(true); \
                m.querySelectorAll('form').forEach(f => f.remove()); return m.textContent; })()";
    browser.open_file(&page(&place));
    let with = browser.eval(text);
    assert_eq!(browser.eval("document.getElementById('filters').checkVisibility()"), true);
    browser.scripts(false);
    browser.open_file(&page(&place));
    let without = browser.eval(text);
    assert!(with.as_str().unwrap().len() > 50_000);
    assert_eq!(with, without);
    assert_eq!(browser.eval("document.getElementById('filters').checkVisibility()"), false, "filters need it");
    assert_eq!(browser.eval("document.querySelector('details.verdict').open"), false);
    browser.click("details.verdict > summary");
    browser.wait("document.querySelector('details.verdict').open");
    assert_eq!(browser.eval("document.querySelector('details.verdict .body').checkVisibility()"), true);
    // A link from the table leads to the folded verdict, which unfolds by a click.
    let link = browser.eval("document.querySelector('#verdict-table tbody tr:last-child a').getAttribute('href')");
    let link = link.as_str().unwrap().to_owned();
    browser.click(&format!("a[href='{link}']"));
    let verdict = format!("document.getElementById({})", json!(&link[1..]));
    browser.wait(&format!("(t => t >= 0 && t < innerHeight)({verdict}.getBoundingClientRect().top)"));
    browser.click(&format!("details[id='{}'] > summary", &link[1..]));
    browser.wait(&format!("{verdict}.open"));
    is_quiet(&mut browser, &page(&place));
}

/// What shows that a page is quiet can see one that is not; and the policy holds even where an escape were missing.
#[test]
fn a_page_that_is_not_quiet_is_noticed() {
    let place = Place::scored();
    place.run(&["report", "run"]).exits(0);
    let Some(mut browser) = Browser::start("a page that is not quiet") else { return };
    let whole = fs_err::read_to_string(page(&place)).unwrap();
    let smuggled = "<main><script>window.pwned = 1</script><img src='http://127.0.0.1:9/x' onerror='window.pwned = 2'>";
    let file = place.join("smuggled.html");
    fs_err::write(&file, whole.replacen("<main>", smuggled, 1)).unwrap();
    browser.open_file(&file);
    assert_eq!(browser.eval("window.pwned ?? 'no'"), "no", "the policy lets nothing of it run");
    assert!(browser.complaints().len() >= 2, "{:?}", browser.complaints());
    // Without the policy it would have run, and asked.
    let start = whole.find("<meta http-equiv").unwrap();
    let end = start + whole[start..].find('>').unwrap() + 1;
    let bare = format!("{}{}", &whole[..start], &whole[end..]);
    fs_err::write(&file, bare.replacen("<main>", smuggled, 1)).unwrap();
    browser.open_file(&file);
    assert_ne!(browser.eval("window.pwned ?? 'no'"), "no");
    assert!(browser.requests().iter().any(|asked| asked.starts_with("http://127.0.0.1:9/")));
}

#[test]
fn hostile_texts_are_shown_and_do_nothing() {
    let place = hostile::run();
    let ran = place.run(&["report", "run", "--json"]).exits(0);
    let report = ran.json();
    let whole = fs_err::read_to_string(page(&place)).unwrap();
    let hidden = |c: char| {
        (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}')
    };
    assert_eq!(whole.chars().find(|c| hidden(*c)), None);
    assert!(whole.len() < 8 << 20, "{} bytes", whole.len());

    // JUnit: well-formed for our own reader, and every verdict in it.
    let xml = fs_err::read_to_string(place.join("run/report/junit.xml")).unwrap();
    let cases = junit::parse(&xml).unwrap();
    assert_eq!(cases.len(), report["verdicts"].as_array().unwrap().len());
    assert!(!xml.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{fffe}'));
    python_reads(&place, report["arms"].as_array().unwrap().len(), cases.len());

    let Some(mut browser) = Browser::start("hostile texts in a browser") else { return };
    for scripts in [true, false] {
        browser.scripts(scripts);
        browser.open_file(&page(&place));
        is_quiet(&mut browser, &page(&place));
        assert_eq!(browser.eval("window.pwned ?? 'no'"), "no");
        assert_eq!(browser.eval("document.images.length + document.querySelectorAll('svg[onload], script').length"), 1);
        assert_eq!(browser.eval(VISIBLE_ROWS), report["verdicts"].as_array().unwrap().len());
        let heading = browser.eval("document.querySelector('h1').textContent");
        assert!(heading.as_str().unwrap().starts_with("<script>window.pwned=1</script><img src="), "{heading}");
        // No text broke out of its place: all of it stands between the first and the last element of the page.
        assert_eq!(browser.eval("document.body.lastElementChild.tagName + document.body.children.length"), "SCRIPT6");
        assert_eq!(browser.eval("document.querySelector('main').parentElement.tagName"), "BODY");
    }
    // A line of a megabyte is cut, and the page is no wider than its window.
    browser.scripts(true);
    browser.window(400, 800, false);
    browser.open_file(&page(&place));
    browser.eval("document.querySelectorAll('details').forEach(d => { d.open = true; })");
    let too_wide = "[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 \
                    && !e.closest('.scroll, pre, .brief, .verdict-table .text')).map(e => e.tagName + '.' + e.className)";
    assert_eq!(browser.eval(too_wide), json!([]));
    assert_eq!(browser.eval("document.documentElement.scrollWidth <= innerWidth"), true);
}

/// Every text that a template sees was made visible before; the snapshot holds the shape of what they see.
#[test]
fn the_context_of_the_templates() {
    let place = Place::scored();
    let run = RunFolder::open(&place.join("run")).unwrap();
    let built = build(&run, None).unwrap();
    let (front, sections) = contexts(&run, &built);
    assert_eq!(front.rows.len(), built.report.verdicts.len());
    assert_eq!(front.health.oracles.iter().map(|c| c.count).sum::<usize>(), built.report.comments);
    assert_eq!(sections.iter().map(|s| s.comments.len()).sum::<usize>(), built.report.comments);
    let rotate = sections.iter().find(|s| s.instance.contains("rotate-8")).unwrap();
    let mut seen = json!({"front": front, "section": rotate});
    // Two rows tell what the others look like.
    seen["front"]["rows"].as_array_mut().unwrap().truncate(2);
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("pages");
    settings.set_prepend_module_to_snapshot(false);
    for (pattern, name) in [
        (r"[0-9a-f]{64}", "[digest]"),
        (r"(blobs|oracle)/[0-9a-f]{2}/", "$1/[aa]/"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "[time]"),
        (r"\d+(\.\d+)? s\b", "[seconds]"),
        (r#""seconds_number": "[\d.]+""#, r#""seconds_number": "[number]""#),
        (r#" · CPU [^"]*"#, " · CPU [more]"),
        (r#"_version": "[^"]*""#, r#"_version": "[version]""#),
        (r#""value": "local · .*""#, r#""value": "[isolation]""#),
    ] {
        settings.add_filter(pattern, name);
    }
    settings.bind(|| insta::assert_snapshot!("context", serde_json::to_string_pretty(&seen).unwrap()));
}

#[test]
fn the_report_is_the_same_bytes_again() {
    let place = Place::scored();
    let read = || {
        place.run(&["report", "run"]).exits(0);
        ["report.html", "junit.xml"].map(|name| fs_err::read(place.join("run/report").join(name)).unwrap())
    };
    let first = read();
    assert_eq!(first, read());
    // Not the page of another denominator.
    place.run(&["report", "run", "--denominator", "final"]).exits(0);
    assert_ne!(first[0], fs_err::read(page(&place)).unwrap());
    // And the benchmark is not needed.
    fs_err::remove_dir_all(place.join("bench")).unwrap();
    assert_eq!(first, read());
}

#[test]
fn junit_counts_what_the_report_counts() {
    let place = Place::scored();
    let report = place.run(&["report", "run", "--json"]).exits(0).json();
    let xml = fs_err::read_to_string(place.join("run/report/junit.xml")).unwrap();
    let mut counts: BTreeMap<CaseStatus, u64> = BTreeMap::new();
    for case in junit::parse(&xml).unwrap() {
        *counts.entry(case.status).or_default() += 1;
    }
    for (status, field) in [
        (CaseStatus::Passed, "passed"),
        (CaseStatus::Failed, "failed"),
        (CaseStatus::Errored, "invalid"),
        (CaseStatus::Skipped, "missing"),
    ] {
        let wanted: u64 = report["arms"].as_array().unwrap().iter().map(|a| a[field].as_u64().unwrap()).sum();
        assert_eq!(counts.get(&status).copied().unwrap_or(0), wanted, "{field}");
    }
    assert!(xml.contains(r#"<testcase classname="lantern-example__rotate-6@e2215cf" name="c1""#), "{xml}");
    assert!(xml.contains(r#"<property name="policy" value="strict"/>"#));
    assert!(xml.contains(r#"<property name="mark" value="uncontrolled"/>"#));
    let (arms, rows) = (report["arms"].as_array().unwrap().len(), report["verdicts"].as_array().unwrap().len());
    python_reads(&place, arms, rows);
}

/// An XML reader that is not ours.
#[track_caller]
fn python_reads(place: &Place, arms: usize, cases: usize) {
    let script = "import sys, xml.etree.ElementTree as e; r = e.parse(sys.argv[1]).getroot(); \
                  print(len(r.findall('testsuite')), len(r.findall('testsuite/testcase')), r.get('tests'))";
    let mut python = std::process::Command::new("python3");
    let Ok(python) = python.args(["-c", script]).arg(place.join("run/report/junit.xml")).output() else {
        return loudly("NOT RUN, as there is no python3: its XML reader on junit.xml");
    };
    let said = String::from_utf8_lossy(&python.stdout).trim().to_owned();
    assert_eq!(said, format!("{arms} {cases} {cases}"), "{}", String::from_utf8_lossy(&python.stderr));
}

/// A run folder of an older version: its roster knows no texts, tests, instances and attrition.
#[test]
fn an_old_roster_is_reported() {
    let place = Place::scored();
    let run = RunFolder::open(&place.join("run")).unwrap();
    let mut manifest = run.manifest().unwrap();
    let mut roster: Value = serde_json::from_slice(&run.blob(&manifest.roster).unwrap()).unwrap();
    for field in ["instances", "attrition"] {
        roster.as_object_mut().unwrap().remove(field);
    }
    for comment in roster["comments"].as_array_mut().unwrap() {
        for field in ["text", "path", "lines", "test"] {
            comment.as_object_mut().unwrap().remove(field);
        }
    }
    manifest.roster = run.put_blob(&serde_json::to_vec(&roster).unwrap()).unwrap();
    run.set_manifest(&manifest).unwrap();
    place.run(&["report", "run"]).exits(0);
    let whole = fs_err::read_to_string(page(&place)).unwrap();
    assert!(whole.contains("The run does not hold the comment's text"));
}

/// A large run has a page an instance, and every verdict on one of them.
#[test]
fn a_large_run_is_paged() {
    let place = Place::new();
    let root = place.join("run");
    let verdicts = large::run(&root, bounds::TABLE_ROWS / 20 + 1);
    assert!(verdicts > bounds::TABLE_ROWS);
    let run = RunFolder::open(&root).unwrap();
    let built = build(&run, None).unwrap();
    fs_err::create_dir_all(root.join("report/instances")).unwrap();
    fs_err::write(root.join("report/instances/old.html"), "of an earlier report").unwrap();
    let made = write(&run, &built).unwrap();
    assert_eq!((made.layout, made.files), (Layout::Paged, 1 + built.report.instances));
    assert!(!root.join("report/instances/old.html").exists());
    let mut found = 0;
    for entry in fs_err::read_dir(root.join("report/instances")).unwrap() {
        found += fs_err::read_to_string(entry.unwrap().path()).unwrap().matches("<details class=\"verdict ").count();
    }
    assert_eq!(found, verdicts);

    let Some(mut browser) = Browser::start("a large run in a browser") else { return };
    browser.open_file(&page(&place));
    is_quiet(&mut browser, &page(&place));
    browser.click("#instances ~ .scroll tbody tr:nth-child(2) a");
    browser.wait("document.querySelectorAll('details.verdict').length === 20");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    assert!(browser.requests().iter().all(|asked| asked.starts_with("file://")));
    assert_eq!(browser.eval("document.querySelector('.crumb a').getAttribute('href')"), "../report.html#instances");
}

/// How many bytes and seconds a verdict costs: `cargo test --test it how_large -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn how_large_and_how_slow() {
    for instances in [500, 5_000] {
        let place = Place::new();
        let verdicts = large::run(&place.join("run"), instances);
        let run = RunFolder::open(&place.join("run")).unwrap();
        let began = Instant::now();
        let built = build(&run, None).unwrap();
        let read = began.elapsed().as_secs_f64();
        let began = Instant::now();
        let made = write(&run, &built).unwrap();
        let pages = began.elapsed().as_secs_f64();
        let began = Instant::now();
        write_files(&run, &built).unwrap();
        let all = began.elapsed().as_secs_f64();
        let largest = fs_err::metadata(place.join("run/report/report.html")).unwrap().len();
        loudly(&format!(
            "{verdicts} verdicts: read and decided in {read:.2} s, pages in {pages:.2} s, all files (pages again) in {all:.2} s; {} files, \
             {} MB, {} bytes a verdict, report.html {largest} bytes",
            made.files,
            made.bytes / 1_000_000,
            made.bytes / verdicts
        ));
    }
}

/// Pictures to look at, in `target/tmp/pages`: `cargo test --test it pictures -- --ignored`.
#[test]
#[ignore = "pictures for people"]
fn pictures() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    fs_err::create_dir_all(&folder).unwrap();
    for (name, place) in [("example", Place::scored()), ("hostile", hostile::run())] {
        place.run(&["report", "run"]).exits(0);
        let Some(mut browser) = Browser::start("pictures") else { return };
        for (shape, width, height, dark) in
            [("wide", 1280, 1000, false), ("narrow", 420, 900, false), ("dark", 1280, 1000, true)]
        {
            browser.window(width, height, dark);
            browser.open_file(&page(&place));
            browser.shoot(&folder.join(format!("{name}-{shape}-top.png")));
            browser.eval("document.getElementById('verdicts').scrollIntoView()");
            browser.shoot(&folder.join(format!("{name}-{shape}-verdicts.png")));
            browser.click("#verdict-table tr[data-verdict=fail] a");
            browser.wait("location.hash && document.getElementById(location.hash.slice(1)).checkVisibility()");
            browser.shoot(&folder.join(format!("{name}-{shape}-detail.png")));
            browser.eval("window.scrollBy(0, innerHeight - 80)");
            browser.shoot(&folder.join(format!("{name}-{shape}-detail2.png")));
        }
    }
}
