//! `docs/HOSTILE.md` is made from the tables.

use std::fmt::Write as _;

use super::TABLES;
use super::table::{Control, Table};
use crate::support::root;

/// Between these lines of the page stands what the tables say.
const BEGIN: &str = "<!-- rows: made from tests/it/hostile/*.toml by the tests -->\n";
const END: &str = "<!-- end of rows -->\n";

#[test]
fn there_are_enough_rows() {
    let tables: Vec<_> = TABLES.iter().map(|name| Table::read(name)).collect();
    let rows: usize = tables.iter().map(|table| table.row.len()).sum();
    assert!(rows >= 60, "{rows} rows");
    for (name, table) in TABLES.iter().zip(&tables) {
        for row in &table.row {
            let has = (row.attempt.is_some(), row.control.is_some());
            assert!(has.1 || !has.0, "{name}: `{}` reaches for something and has no control", row.name);
        }
    }
}

/// A file of rows that no test reads would prove nothing.
#[test]
fn no_table_is_forgotten() {
    for entry in fs_err::read_dir(root().join("tests/it/hostile")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(table) = name.strip_suffix(".toml") {
            assert!(TABLES.contains(&table), "tests/it/hostile/{name} is not among the tables");
        }
    }
}

/// The page shows the tables as they are.
#[test]
fn the_page_is_up_to_date() {
    let text = page();
    let rows = between(&text);
    assert!(
        rows == made(),
        "docs/HOSTILE.md is not what the tables say; make it again with \
         `cargo test --test it hostile::page::write -- --ignored`"
    );
}

#[test]
#[ignore = "writes docs/HOSTILE.md"]
fn write() {
    let text = page();
    let (before, rest) = text.split_at(text.find(BEGIN).unwrap() + BEGIN.len());
    let after = &rest[rest.find(END).unwrap()..];
    let text = [before, &made(), after].concat();
    fs_err::write(root().join("docs/HOSTILE.md"), text).unwrap();
}

fn page() -> String {
    fs_err::read_to_string(root().join("docs/HOSTILE.md")).unwrap()
}

fn between(text: &str) -> &str {
    let from = text.find(BEGIN).unwrap() + BEGIN.len();
    let to = text.find(END).unwrap();
    &text[from..to]
}

fn made() -> String {
    let mut text = String::new();
    for name in TABLES {
        let table = Table::read(name);
        let options = if table.arguments.is_empty() {
            String::new()
        } else {
            format!(" Scored with `{}`.", table.arguments.join(" "))
        };
        write!(text, "\n## {}\n\n{}{options}\n\n", table.title, table.about.trim()).unwrap();
        text.push_str("| row | the revision | what comes of it | control |\n|---|---|---|---|\n");
        for row in &table.row {
            let control = match row.control {
                None => "",
                Some(Control::Bare) => "the sandbox's own host user gets through",
                Some(Control::Root) => "root gets through",
                Some(Control::Storm) => "hits every process of a host user",
            };
            let mut what = row.expect.clone();
            if let Some(userns) = &row.userns {
                write!(what, " (at `userns`: {userns})").unwrap();
            }
            if let Some(container) = &row.container {
                write!(what, " (in a container: {container})").unwrap();
            }
            if let Some(none) = row.none.as_ref().filter(|none| **none != row.expect) {
                write!(what, " (without a sandbox: {none})").unwrap();
            }
            let cells = [&row.name, row.does.trim(), &what, control].map(|cell| cell.replace('|', "\\|"));
            writeln!(text, "| {} |", cells.join(" | ")).unwrap();
        }
    }
    text.push('\n');
    text
}
