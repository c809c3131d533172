//! Wrong command lines: what is wrong and what to do about it, exit code 2, and nothing is left behind.

use insta::assert_snapshot;

use crate::support::{Place, copy_folder, root};

/// A place with the benchmark at `bench`, and a folder that is something else at `foreign`.
fn place() -> Place {
    let place = Place::with_bench();
    fs_err::create_dir(place.join("foreign")).unwrap();
    fs_err::write(place.join("foreign/letter.txt"), "dear reader").unwrap();
    place
}

#[test]
fn no_verb_lists_the_verbs() {
    assert_snapshot!(place().see(&[]), @r"
    exit code 2
    ----- stderr
    Execution-based test oracle runner for code review

    Usage: redgreen <COMMAND>

    Commands:
      doctor       Tell what this machine can do: sandbox, limits, toolchains, git, disk, settings
      import       Turn foreign data into a benchmark folder
      check        Check a benchmark folder: every line, every id, every test file
      leak-check   Look through a checkout for anything later than the commit to review
      snapshot     Make a checkout of one instance for a review tool or an agent, in which nothing is
                   later than the commit to review
      score        Run every oracle on every revision in a clean sandbox, decide verdicts, report pass
                   rates per arm
      audit        Ask of each oracle whether it measures the concern, or the wording of one fix
      report       Report a run from its records, or a benchmark's recorded verdicts. Runs nothing
      diff         Compare two runs: which verdicts differ, and why
      rerun        Repeat one oracle run of a run folder in a fresh sandbox, and compare it with what is
                   on record
      freeze       Write a benchmark with a frozen set: the comments whose oracles' controls just did
                   what they must, on this machine
      funnel       Show what each stage of a benchmark's making left over, what went and why, and what
                   it cost
      label        Have people label comments: sheets go out, two people's come back, are compared, and
                   become gold labels
      env          Build environments ahead, make what they stand on, look at them, sit down in one,
                   make room
      filter       Classify comments: which of them can become oracles?
      synth        Turn comments into tests: a language model writes them, and what fails before and
                   passes after is kept
      validate     Can coding agents solve the comments from their words? Several attempts each, scored
                   by the oracles
      prompt       Look at the prompts that language models get
      gc           Show what the cache holds, and delete what was not used for a while
      completions  Print a completion script for a shell
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version

    Exit codes:
      0    done; a low pass rate is no error
      1    a check that you asked for says no
      2    wrong usage or input
      3    some work ended as infra: the machine's fault, tried again by the next run
      130  interrupted: the same command goes on

    Example: redgreen score examples/quickstart
    ");
}

#[test]
fn unknown_and_planned_verbs_are_told_apart() {
    let place = place();
    assert_snapshot!(place.see(&["scoer", "bench"]), @r"
    exit code 2
    ----- stderr
    error: `scoer` is no verb of redgreen
    hint: `redgreen --help` lists the verbs
    ");
    assert_snapshot!(place.see(&["mine", "somewhere"]), @r"
    exit code 2
    ----- stderr
    error: `redgreen mine` is planned and not there yet
    hint: `redgreen --help` lists the verbs that are there
    ");
    assert_snapshot!(place.see(&["import"]), @r"
    exit code 2
    ----- stderr
    Turn foreign data into a benchmark folder

    Usage: redgreen import <COMMAND>

    Commands:
      swe-care     A SWE-CARE data set (JSON Lines): instances and comments, no oracles
      c-crab       The c-CRAB release: a folder, a folder of zips, or a git directory as PATH@REV
      github       Pull requests with their review comments, as GitHub's API gives them (REST or
                   GraphQL), from files or asked for now
      folder       Instances written by a person: folders with an `instance.json` and its tests, or
                   folders of such folders
      predictions  SWE-bench predictions (JSON Lines, list or map) as revisions of an existing benchmark
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help (see more with '--help')
    ");
    assert_snapshot!(place.see(&["completions", "klingon"]), @r"
    exit code 2
    ----- stderr
    error: invalid value 'klingon' for '<SHELL>'
      [possible values: bash, elvish, fish, powershell, zsh]

    For more information, try '--help'.
    ");
}

#[test]
fn options_that_are_not_there() {
    let place = place();
    assert_snapshot!(place.see(&["score", "bench", "--foo"]), @r"
    exit code 2
    ----- stderr
    error: unexpected argument '--foo' found

      tip: to pass '--foo' as a value, use '-- --foo'

    Usage: redgreen score <BENCH>

    For more information, try '--help'.
    ");
    assert_snapshot!(place.see(&["score", "bench", "--denominater", "all"]), @r"
    exit code 2
    ----- stderr
    error: unexpected argument '--denominater' found

      tip: a similar argument exists: '--denominator'

    Usage: redgreen score --denominator <WHICH> <BENCH>

    For more information, try '--help'.
    ");
    assert_snapshot!(place.see(&["score"]), @r"
    exit code 2
    ----- stderr
    error: the following required arguments were not provided:
      <BENCH>

    Usage: redgreen score <BENCH>

    For more information, try '--help'.
    ");
    assert_snapshot!(place.see(&["score", "bench", "--new", "--out", "run"]), @r"
    exit code 2
    ----- stderr
    error: the argument '--new' cannot be used with '--out <RUN>'

    Usage: redgreen score --new <BENCH>

    For more information, try '--help'.
    ");
}

#[test]
fn values_that_make_no_sense() {
    let place = place();
    let see = |option: &str, value: &str| place.see(&["score", "bench", option, value]);
    assert_snapshot!(see("--slice", "5"), @r"
    exit code 2
    ----- stderr
    error: invalid value '5' for '--slice <A:B>': `5` is no slice (use `10:20`, `:5`, `7:`)

    For more information, try '--help'.
    ");
    assert_snapshot!(see("--slice", "5:2"), @r"
    exit code 2
    ----- stderr
    error: invalid value '5:2' for '--slice <A:B>': the slice `5:2` is empty

    For more information, try '--help'.
    ");
    assert_snapshot!(see("--memory", "lots"), @r"
    exit code 2
    ----- stderr
    error: invalid value 'lots' for '--memory <SIZE>': `lots` is not a size (use `512M`, `2G`)

    For more information, try '--help'.
    ");
    assert_snapshot!(see("--memory", "10k"), @r"
    exit code 2
    ----- stderr
    error: invalid value '10k' for '--memory <SIZE>': `10k` is no sensible amount of memory (at least 1M)

    For more information, try '--help'.
    ");
    assert_snapshot!(see("--timeout", "soon"), @r"
    exit code 2
    ----- stderr
    error: invalid value 'soon' for '--timeout <SECONDS>': `soon` is no number of seconds

    For more information, try '--help'.
    ");
    assert_snapshot!(see("--timeout", "0"), @r"
    exit code 2
    ----- stderr
    error: invalid value '0' for '--timeout <SECONDS>': 0 seconds is not between 0.01 s and a week

    For more information, try '--help'.
    ");
    assert_snapshot!(see("--denominator", "most"), @r"
    exit code 2
    ----- stderr
    error: invalid value 'most' for '--denominator <WHICH>': `most` is no denominator (use `all`, `valid` or `final`)

    For more information, try '--help'.
    ");
    assert_snapshot!(see("--policy", "lax"), @r"
    exit code 2
    ----- stderr
    error: invalid value 'lax' for '--policy <POLICY>': `lax` is no policy (use `strict` or `c-crab`)

    For more information, try '--help'.
    ");
    assert_snapshot!(see("--jobs", "0"), @r"
    exit code 2
    ----- stderr
    error: invalid value '0' for '--jobs <N>': `0` is no number from 1 to 4096

    For more information, try '--help'.
    ");
    assert_snapshot!(see("--jobs", "many"), @r"
    exit code 2
    ----- stderr
    error: invalid value 'many' for '--jobs <N>': `many` is no number from 1 to 4096

    For more information, try '--help'.
    ");
    assert_snapshot!(see("--repeat", "0"), @r"
    exit code 2
    ----- stderr
    error: invalid value '0' for '--repeat <N>': `0` is no number from 1 to 100

    For more information, try '--help'.
    ");
    assert_snapshot!(see("--retry", "passed"), @r"
    exit code 2
    ----- stderr
    error: invalid value 'passed' for '--retry <OUTCOME>': `passed` is no outcome to run again (use infra, timed-out, out-of-memory, crashed, errored, no-tests, failed, or `timeout`)

    For more information, try '--help'.
    ");
    assert_snapshot!(see("--sandbox", "castle"), @r"
    exit code 2
    ----- stderr
    error: invalid value 'castle' for '--sandbox <SANDBOX>'
      [possible values: local, none, docker]

      tip: a similar value exists: 'local'

    For more information, try '--help'.
    ");
    assert_snapshot!(see("--instances", "[a"), @r"
    exit code 2
    ----- stderr
    error: `[a` is no pattern for instance ids
      caused by: error parsing glob '[a': unclosed character class; missing ']'
    ");
    assert_snapshot!(place.see(&["gc", "--unused-days", "x"]), @r"
    exit code 2
    ----- stderr
    error: invalid value 'x' for '--unused-days <DAYS>': `x` is no number of days

    For more information, try '--help'.
    ");
}

#[test]
fn choices_that_leave_nothing() {
    let place = place();
    assert_snapshot!(place.see(&["score", "bench", "--arms", "owl"]), @r"
    exit code 2
    ----- stderr
    error: there is no arm `owl`
    hint: the arms are: hare-review, head, human, magpie-review, merged, none, owl-review
    ");
    assert_snapshot!(place.see(&["score", "bench", "--instances", "nothing*"]), @r"
    exit code 2
    ----- stderr
    error: nothing to score: no instance matches `--instances`
    hint: its instances are: lantern-example__shelf-4@053db49, lantern-example__shelf-7@7ebd13e, lantern-example__tally-3@2a8c4ad, lantern-example__tally-9@8f8e90a, lantern-example__pulse-5@3fb155c, …
    ");
    assert_snapshot!(place.see(&["score", "bench", "--slice", "100:"]), @r"
    exit code 2
    ----- stderr
    error: nothing to score: `--slice` begins behind the last of 8 instances
    hint: slices are counted from 0: `10:20`, `:5`, `7:`
    ");
    assert_snapshot!(place.see(&["score", "bench", "--instances", "*rotate-8*"]), @r"
    exit code 2
    ----- stderr
    error: nothing to score: denominator `final` counts no comment of the chosen instances
    hint: use `--denominator all`, or choose other instances
    ");
    assert!(!place.join("redgreen-runs").exists(), "a run folder was made for nothing");
}

#[test]
fn folders_that_are_something_else() {
    let place = place();
    assert_snapshot!(place.see(&["score", "nowhere"]), @r"
    exit code 2
    ----- stderr
    error: there is no folder `[place]/nowhere`; give the path of a benchmark, or make one with `redgreen import`
    ");
    assert_snapshot!(place.see(&["score", "foreign"]), @r"
    exit code 2
    ----- stderr
    error: `[place]/foreign` is not a benchmark: it has no `bench.json`; make one with `redgreen import`
    ");
    assert_snapshot!(place.see(&["score", "bench", "--out", "foreign"]), @r"
    exit code 2
    ----- stderr
    error: `[place]/foreign`: the folder is not empty and is no run folder; name another one with `--out`
    ");
    assert_snapshot!(place.see(&["score", "bench", "--out", "foreign/letter.txt"]), @r"
    exit code 2
    ----- stderr
    error: `[place]/foreign/letter.txt`: it is a file and no run folder; name another place with `--out`
    ");
    assert_snapshot!(place.see(&["check", "nowhere"]), @r"
    exit code 2
    ----- stderr
    error: there is no folder `nowhere`
    hint: give the path of a benchmark, or make one with `redgreen import`
    ");
    assert_snapshot!(place.see(&["report", "nowhere"]), @r"
    exit code 2
    ----- stderr
    error: there is no folder `nowhere`
    hint: give the path of a run folder; `redgreen score` makes them, in `redgreen-runs` by default
    ");
    assert_snapshot!(place.see(&["report", "foreign"]), @r"
    exit code 2
    ----- stderr
    error: `foreign` is not a run folder: it has no `manifest.json`
    hint: `redgreen score` makes run folders, in `redgreen-runs` by default
    ");
    assert_snapshot!(place.see(&["report", "bench"]), @r"
    exit code 2
    ----- stderr
    error: `bench` is a benchmark, not a run
    hint: add `--recorded` for the verdicts that came with it, or name a run folder
    ");
    assert_snapshot!(place.see(&["report", "bench", "--recorded"]), @r"
    exit code 2
    ----- stderr
    error: `bench` came with no recorded verdicts
    hint: `redgreen score` runs its revisions
    ");
    assert_snapshot!(place.see(&["score", "bench", "--mirrors", "nowhere"]), @r"
    exit code 2
    ----- stderr
    error: the mirrors folder `nowhere` is not there
    hint: it was named by: command line
    ");
    assert_snapshot!(place.see(&["score", "bench", "--definitions", "nowhere"]), @r"
    exit code 2
    ----- stderr
    error: the definitions folder `nowhere` is not there
    hint: it was named by: command line
    ");
    assert_snapshot!(place.see(&["score", "bench", "--revisions", "nowhere.jsonl"]), @r"
    exit code 2
    ----- stderr
    error: there is no file or folder `nowhere.jsonl`; check the path
    ");
    let foreign: Vec<_> = fs_err::read_dir(place.join("foreign")).unwrap().collect();
    assert_eq!(foreign.len(), 1, "something was written into a foreign folder");
    assert!(!place.join("redgreen-runs").exists(), "a run folder was made for nothing");
}

#[test]
fn final_needs_a_frozen_choice() {
    let place = place();
    place.edit("bench/bench.json", |text| {
        let mut bench: serde_json::Value = serde_json::from_str(&text).unwrap();
        bench.as_object_mut().unwrap().remove("frozen");
        bench.to_string()
    });
    assert_snapshot!(place.see(&["score", "bench", "--denominator", "final"]), @r"
    exit code 2
    ----- stderr
    error: this benchmark has no frozen choice of its own
    hint: use `--denominator valid` or `all`
    ");
}

#[test]
fn a_run_keeps_its_policy_and_its_benchmark() {
    let place = place();
    let only = ["--instances", "*rotate-8*", "--denominator", "all", "--arms", "head"];
    place.run(&[&["score", "bench", "--out", "run"], &only[..]].concat()).exits(0);
    assert_snapshot!(place.see(&["score", "bench", "--out", "run", "--policy", "c-crab"]), @r"
    exit code 2
    ----- stderr
    error: `[place]/run` is a run of policy `strict`
    hint: the policy is part of a run: name another folder with `--out`
    ");
    copy_folder(&root().join("examples/quickstart"), &place.join("other"));
    place.edit("other/bench.json", |text| text.replace("\"quickstart\"", "\"slowstart\""));
    assert_snapshot!(place.see(&["score", "other", "--out", "run"]), @r"
    exit code 2
    ----- stderr
    error: `[place]/run` is a run of benchmark `quickstart`
    hint: name another folder with `--out`
    ");
    assert_snapshot!(place.see(&["report", "run", "--denominator", "most"]), @r"
    exit code 2
    ----- stderr
    error: invalid value 'most' for '--denominator <WHICH>': `most` is no denominator (use `all`, `valid` or `final`)

    For more information, try '--help'.
    ");
}

#[test]
fn sandboxes() {
    let place = place();
    assert_snapshot!(place.see(&["score", "bench", "--sandbox", "docker"]), @r"
    exit code 3
    ----- stderr
    error: no sandbox can be set up here: no container engine answers: unix:///nonexistent/docker.sock (by DOCKER_HOST): Socket not found: /nonexistent/docker.sock
    hint: `redgreen doctor` tells what the engine can do; `--sandbox local` needs none
    ");
    // Running without a sandbox is only ever typed.
    let unasked = crate::support::Ran::of(
        place.command(&["score", "bench", "--out", "run"]).env("REDGREEN_SANDBOX", "none").output().unwrap(),
    );
    assert_snapshot!(place.shown(&unasked), @r"
    exit code 2
    ----- stderr
    error: running without a sandbox must be asked for by `--sandbox none` each time
    hint: it was set by: environment, REDGREEN_SANDBOX
    ");
    fs_err::write(place.join("redgreen.toml"), "sandbox = \"none\"\n").unwrap();
    assert_snapshot!(place.see(&["score", "bench", "--out", "run"]), @r"
    exit code 2
    ----- stderr
    error: running without a sandbox must be asked for by `--sandbox none` each time
    hint: it was set by: [place]/redgreen.toml
    ");
    assert!(!place.join("run").exists());
}
