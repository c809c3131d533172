//! Labelling by people, out and back.

use serde_json::Value;

use super::stand::rows;
use crate::support::Place;

/// Fills a sheet's rows in, all alike but for those that `other` names.
fn fill(place: &Place, name: &str, category: impl Fn(usize) -> &'static str) {
    let lines: String = rows(&place.join("sheets/labels.jsonl"))
        .into_iter()
        .enumerate()
        .map(|(n, mut row)| {
            for flag in ["actionable", "specific", "verifiable"] {
                row[flag] = "yes".into();
            }
            (row["category"], row["oracle"]) = (category(n).into(), "behavioral".into());
            format!("{row}\n")
        })
        .collect();
    fs_err::write(place.join(name), lines).unwrap();
}

#[test]
fn two_sheets_become_gold_and_a_third_person_decides() {
    let place = Place::with_bench();
    let ran = place.run(&["label", "export", "bench", "--out", "sheets", "--json"]).exits(0);
    assert_eq!(ran.json()["comments"], 13);
    let page = fs_err::read_to_string(place.join("sheets/label.html")).unwrap();
    assert_eq!(page.matches("<fieldset ").count(), 13);
    // No category that the data gives, which would tell people what to say.
    assert!(!fs_err::read_to_string(place.join("sheets/labels.csv")).unwrap().contains("robustness"));

    fill(&place, "ann.jsonl", |n| if n < 6 { "functional" } else { "design" });
    fill(&place, "ben.jsonl", |n| if n < 4 { "functional" } else { "design" });
    let import = ["label", "import", "bench", "ann.jsonl", "ben.jsonl", "--out", "gold.jsonl", "--json"];
    let first = place.run(&[&import[..], &["--conflicts", "open.csv"]].concat()).exits(1).json();
    let compared = &first["compared"];
    assert_eq!(
        (&compared["both"], &compared["agreed"], &first["gold"], &first["open"]),
        (&13.into(), &11.into(), &11.into(), &2.into())
    );
    let category = compared["points"].as_array().unwrap().iter().find(|p| p["point"] == "category").unwrap();
    // 11/13 equal; by chance (6·4 + 7·9)/169.
    let (observed, expected) = (11.0 / 13.0, 87.0 / 169.0);
    let kappa = category["kappa"]["kappa"].as_f64().unwrap();
    assert!((kappa - (observed - expected) / (1.0 - expected)).abs() < 1e-9, "{kappa}");
    let open = fs_err::read_to_string(place.join("open.csv")).unwrap();
    assert!(
        open.contains("1: yes yes yes functional behavioral") && open.contains("2: yes yes yes design behavioral"),
        "{open}"
    );

    let decided = open
        .replace(",,,,,,\n", ",yes,yes,yes,security,behavioral,seen\n")
        .replace(",,,,,\n", ",yes,yes,yes,security,behavioral,seen\n");
    fs_err::write(place.join("open.csv"), decided).unwrap();
    let second = place.run(&[&import[..], &["--adjudicated", "open.csv"]].concat()).exits(0).json();
    assert_eq!((&second["gold"], &second["open"]), (&13.into(), &0.into()));
    let gold = rows(&place.join("gold.jsonl"));
    let by = |who: &str| gold.iter().filter(|g| g["by"] == who).count();
    assert_eq!((by("both"), by("adjudicated")), (11, 2));
    let of: Vec<&Value> = gold.iter().filter(|g| g["by"] == "adjudicated").map(|g| &g["labels"]["category"]).collect();
    assert_eq!(of, ["security", "security"]);

    place.edit("ben.jsonl", |text| text.replacen("\"yes\"", "\"perhaps\"", 1));
    let ran = place.run(&import).exits(1);
    assert!(
        ran.stderr.contains("ben.jsonl: line 1, column `actionable`: `perhaps` is neither yes nor no"),
        "{}",
        ran.stderr
    );
}
