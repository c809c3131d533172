//! Pull requests that are asked for.

use serde_json::json;

use super::server::{Answer, Server};
use super::stand::{REPO, Stand, rows};
use crate::support::Ran;

const PULL: &str = "/repos/glade-example/lamp/pulls/1";
const TOKEN: &str = "ghs_never-to-be-seen";

/// A repository with one reviewed pull request, its mirror, and a server that gives it with plain answers.
fn scene() -> (Stand, String, Server) {
    let stand = Stand::new();
    let base = stand.commit("start", &[("lamp.py", Some("a = 1\n"))]);
    stand.git(&["checkout", "--quiet", "-b", "topic"]);
    let reviewed = stand.commit("more", &[("lamp.py", Some("a = 1\nb = 2\nc = 3\n"))]);
    let last = stand.commit("fix", &[("lamp.py", Some("a = 1\nb = 20\nc = 30\n"))]);
    stand.git(&["update-ref", "refs/pull/1/head", &last]);
    let mut pull = stand.pull(1, &base, &last, None, false);
    pull["body"] = json!("Fixes #7 and closes #8");
    let server = Server::new();
    server.answer(PULL, Answer::good(&pull));
    server.answer(&format!("{PULL}/commits?per_page=100"), Answer::good(stand.commits(&base, &last)));
    server.answer(&format!("{PULL}/reviews?per_page=100"), Answer::good(json!([stand.review(1, &reviewed, "")])));
    let next = format!("<{}{PULL}/comments?per_page=100&page=2>; rel=\"next\"", server.address);
    let comment = |id: u64, line: u64| json!([stand.comment(1, id, (&base, &reviewed), "lamp.py", line, "More.")]);
    server.answer(&format!("{PULL}/comments?per_page=100"), Answer::good(comment(101, 2)).with("Link", next));
    server.answer(&format!("{PULL}/comments?per_page=100&page=2"), Answer::good(comment(102, 3)));
    let issue = json!({"number": 7, "title": "Too small", "body": "b", "repository_url": "https://api.github.com/repos/glade-example/lamp"});
    server.answer("/repos/glade-example/lamp/issues/7", Answer::good(issue));
    server.answer("/repos/glade-example/lamp/issues/7/comments?per_page=100", Answer::good("[]"));
    stand.git(&["checkout", "--quiet", "main"]);
    let mirrors = stand.mirror();
    (stand, mirrors, server)
}

fn live(stand: &Stand, mirrors: &str, server: &Server, more: &[&str]) -> Ran {
    let name = format!("{REPO}#1");
    let mut words = vec!["import", "github", "--live", &name, "--save", "saved", "--api-url", &server.address];
    words.extend(["--mirrors", mirrors, "--out", "bench", "--json"]);
    words.extend(more);
    let mut command = stand.place.command(&words);
    // Nobody is there: this machine itself is reached without it.
    command.env("GITHUB_TOKEN", TOKEN).env("HTTP_PROXY", "http://127.0.0.1:9");
    let ran = Ran::of(command.output().unwrap());
    assert!(!ran.stdout.contains(TOKEN) && !ran.stderr.contains(TOKEN), "{}", ran.stderr);
    ran
}

#[test]
fn every_page_is_kept_and_read_again_from_disk() {
    let (stand, mirrors, server) = scene();
    let ran = live(&stand, &mirrors, &server, &[]).exits(0);
    assert!(server.asked().iter().all(|(_, who)| who.as_deref() == Some(&format!("Bearer {TOKEN}"))));
    let data = rows(&stand.place.join("bench/dataset.jsonl"));
    assert_eq!((data.len(), data[0]["reference_review_comments"].as_array().unwrap().len()), (1, 2));
    assert_eq!(data[0]["problem_statement"], "Too small\nb");
    // Issue 8 is not to be had, which the import says as well.
    assert!(ran.stderr.contains("#8 is not to be had"), "{}", ran.stderr);
    let saved = stand.place.join("saved/glade-example__lamp/1");
    let mut names: Vec<_> =
        fs_err::read_dir(&saved).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let issue = "issue-glade-example__lamp-7";
    let want = [
        "comments-1.json",
        "comments-2.json",
        "commits-1.json",
        &format!("{issue}-1.json"),
        &format!("{issue}-comments-1.json"),
        "pull-1.json",
        "reviews-1.json",
    ];
    assert_eq!(names, want);
    for name in &names {
        assert!(!fs_err::read_to_string(saved.join(name)).unwrap().contains(TOKEN));
    }
    stand.place.run(&["import", "github", "saved", "--mirrors", &mirrors, "--out", "again"]).exits(0);
    let file = |bench: &str| fs_err::read(stand.place.join(bench).join("dataset.jsonl")).unwrap();
    assert!(file("bench") == file("again"));

    // A page that an earlier answer had and this one has not is gone.
    fs_err::write(saved.join("comments-9.json"), "[]").unwrap();
    live(&stand, &mirrors, &server, &[]).exits(0);
    assert!(!saved.join("comments-9.json").exists());
}

#[test]
fn limits_are_waited_for_and_troubles_tried_again() {
    let (stand, mirrors, server) = scene();
    let hasty = Server::new();
    let now = jiff::Timestamp::now().as_second();
    hasty.answer(PULL, Answer::status(502, "Bad gateway"));
    let mut cut = Answer::good("{\"a\": \"bcdefghijklmnop\"}");
    cut.cut = true;
    hasty.answer(PULL, cut);
    let commits = format!("{PULL}/commits?per_page=100");
    let limited =
        Answer::status(403, "API rate limit exceeded").with("x-ratelimit-remaining", 0).with("x-ratelimit-reset", now);
    hasty.answer(&commits, limited);
    let reviews = format!("{PULL}/reviews?per_page=100");
    hasty.answer(&reviews, Answer::status(429, "slow").with("retry-after", 1));
    for path in [PULL, &commits, &reviews, &format!("{PULL}/comments?per_page=100")] {
        hasty.answer(path, Answer::good(body(&server, path)));
    }
    let ran = live(&stand, &mirrors, &hasty, &[]).exits(0);
    assert_eq!((hasty.count(PULL), hasty.count(&commits), hasty.count(&reviews)), (3, 2, 2));
    for said in ["502", "trying again in 2 s", "limit is reached; waiting 1 s"] {
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
    }

    // More than there is time for: infra, and what was kept is named.
    let slow = Server::new();
    slow.answer(PULL, Answer::status(429, "slow").with("retry-after", 50));
    let ran = live(&stand, &mirrors, &slow, &["--max-wait", "5"]).exits(3);
    assert!(ran.stderr.contains("asks to wait 50 s") && slow.count(PULL) == 1, "{}", ran.stderr);
}

fn body(server: &Server, path: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(server.address.strip_prefix("http://").unwrap()).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn refusals_end_at_once_and_no_other_host_gets_the_token() {
    let (stand, mirrors, server) = scene();
    let closed = Server::new();
    closed.answer(PULL, Answer::status(401, "Bad credentials"));
    let ran = live(&stand, &mirrors, &closed, &[]).exits(2);
    assert!(
        ran.stderr.contains("401") && ran.stderr.contains("Bad credentials") && closed.count(PULL) == 1,
        "{}",
        ran.stderr
    );

    let (thief, trap) = (Server::new(), Server::new());
    let pull = body(&server, PULL);
    trap.answer(PULL, Answer::good(&pull).with("Link", format!("<{}/steal>; rel=\"next\"", thief.address)));
    let ran = live(&stand, &mirrors, &trap, &[]).exits(2);
    assert!(ran.stderr.contains("next page elsewhere") && thief.asked().is_empty(), "{}", ran.stderr);
    let moved = Server::new();
    moved.answer(PULL, Answer::status(301, "Moved").with("Location", format!("{}/steal", thief.address)));
    live(&stand, &mirrors, &moved, &[]).exits(2);
    assert!(thief.asked().is_empty());

    let file = stand.place.join("token");
    fs_err::write(&file, "two words").unwrap();
    let ran = live(&stand, &mirrors, &server, &["--token-file", "token"]).exits(2);
    assert!(ran.stderr.contains("token: the token has blanks") && !ran.stderr.contains("two words"), "{}", ran.stderr);
    fs_err::write(&file, format!("{TOKEN}-2\n")).unwrap();
    live(&stand, &mirrors, &server, &["--token-file", "token"]).exits(0);
    assert_eq!(server.asked().last().unwrap().1.as_deref(), Some("Bearer ghs_never-to-be-seen-2"));
}

/// Certificates and proxies are those of all verbs.
#[test]
fn certificates_and_proxies_are_handed_on() {
    let (stand, _, _) = scene();
    let name = format!("{REPO}#1");
    let asked = |api: &str, variable: &str, value: &str| {
        let words =
            ["import", "github", "--live", &name, "--save", "s", "--api-url", api, "--out", "b", "--max-wait", "1"];
        let mut command = stand.place.command(&words);
        Ran::of(command.env("GITHUB_TOKEN", TOKEN).env(variable, value).output().unwrap())
    };
    let ran = asked("https://api.example", "REDGREEN_CA_BUNDLE", "gone.pem").exits(2);
    assert!(ran.stderr.contains("CA bundle `gone.pem`"), "{}", ran.stderr);
    let ran = asked("http://api.example", "HTTP_PROXY", "http://me:hunter2@[::1").exits(2);
    assert!(ran.stderr.contains("a proxy cannot be used") && !ran.stderr.contains("hunter2"), "{}", ran.stderr);
}
