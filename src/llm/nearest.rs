//! What differs between a request that was never recorded and the nearest one that was.

use serde_json::Value;

/// How many differences are told.
const TOLD: usize = 4;

/// How much of a line is shown, in characters.
const SHOWN: usize = 100;

/// Tells in words how a canonical request differs from the nearest of those on record that have its purpose.
pub(super) fn nearest(asked: &Value, recorded: &[Value]) -> String {
    let of_purpose = recorded.iter().filter(|one| one["purpose"] == asked["purpose"] && one["stage"] == asked["stage"]);
    let differing = of_purpose.map(|one| {
        let mut found = Vec::new();
        differences("", asked, one, &mut found);
        found
    });
    let Some(found) = differing.min_by_key(|found| (found.len(), std::cmp::Reverse(shared(found)))) else {
        return format!(
            "there is no request for `{}` of `{}` on record",
            plain(&asked["purpose"]),
            plain(&asked["stage"])
        );
    };
    let told: Vec<String> = found.iter().take(TOLD).map(Difference::tell).collect();
    let more = if found.len() > TOLD { format!("; and {} more", found.len() - TOLD) } else { String::new() };
    format!("the nearest one differs: {}{more}", told.join("; "))
}

struct Difference<'a> {
    place: String,
    asked: Option<&'a Value>,
    was: Option<&'a Value>,
}

fn differences<'a>(place: &str, asked: &'a Value, was: &'a Value, found: &mut Vec<Difference<'a>>) {
    match (asked, was) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            for name in names {
                let inner = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
                compare(inner, a.get(name), b.get(name), found);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for index in 0..a.len().max(b.len()) {
                compare(format!("{place}[{index}]"), a.get(index), b.get(index), found);
            }
        }
        _ if asked == was => {}
        _ => found.push(Difference { place: place.to_owned(), asked: Some(asked), was: Some(was) }),
    }
}

fn compare<'a>(place: String, asked: Option<&'a Value>, was: Option<&'a Value>, found: &mut Vec<Difference<'a>>) {
    match (asked, was) {
        (Some(asked), Some(was)) => differences(&place, asked, was, found),
        (asked, was) => found.push(Difference { place, asked, was }),
    }
}

/// How many bytes texts that differ begin with in common: of two equally different requests the one is nearer that
/// shares more.
fn shared(found: &[Difference<'_>]) -> usize {
    found
        .iter()
        .filter_map(|one| Some((one.asked?.as_str()?, one.was?.as_str()?)))
        .map(|(a, b)| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count())
        .sum()
}

impl Difference<'_> {
    fn tell(&self) -> String {
        let place = &self.place;
        match (self.asked, self.was) {
            (Some(Value::String(asked)), Some(Value::String(was))) => {
                let (mut a, mut b) = (asked.lines(), was.lines());
                for number in 1.. {
                    let (a, b) = (a.next(), b.next());
                    if a != b || a.is_none() {
                        let show =
                            |line: Option<&str>| line.map_or("nothing".to_owned(), |line| format!("`{}`", cut(line)));
                        return format!("line {number} of `{place}` is {} and was {}", show(a), show(b));
                    }
                }
                String::new()
            }
            (asked, was) => {
                let show =
                    |value: Option<&Value>| value.map_or("not there".to_owned(), |value| cut(&value.to_string()));
                format!("`{place}` is {} and was {}", show(asked), show(was))
            }
        }
    }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= SHOWN {
        text.to_owned()
    } else {
        format!("{}…", text.chars().take(SHOWN).collect::<String>())
    }
}

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_nearest_shares_most() {
        let row = |text: &str, n: u32| json!({"stage": "s", "purpose": "p", "messages": [{"text": text}], "n": n});
        let recorded = [row("entirely other", 1), row("the same beginning", 1), row("the same start", 2)];
        let told = nearest(&row("the same begin", 1), &recorded);
        assert_eq!(
            told,
            "the nearest one differs: line 1 of `messages[0].text` is `the same begin` and was `the same beginning`"
        );
        let told = nearest(&json!({"stage": "s", "purpose": "p", "messages": [], "n": 1}), &recorded[..1]);
        assert_eq!(told, "the nearest one differs: `messages[0]` is not there and was {\"text\":\"entirely other\"}");
        assert!(nearest(&json!({"stage": "s", "purpose": "q"}), &recorded).contains("no request for `q` of `s`"));
    }
}
