//! `{{name}}` in the texts of a definition, and `{{name...}}`, which stands alone and becomes several arguments.

use std::collections::BTreeMap;

/// What the names stand for.
#[derive(Debug, Clone, Default)]
pub(super) struct Values {
    /// One text each.
    pub single: BTreeMap<String, String>,
    /// Several arguments each.
    pub lists: BTreeMap<String, Vec<String>>,
}

/// A name that stands for nothing here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnknownName(pub String);

impl Values {
    /// Sets one text.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.single.insert(name.into(), value.into());
    }

    /// A text with its names replaced. What a name stands for is not looked at again.
    pub fn expand(&self, text: &str) -> Result<String, UnknownName> {
        let mut out = String::new();
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Name(name) => match self.single.get(name) {
                    Some(value) => out.push_str(value),
                    None => return Err(UnknownName(name.to_owned())),
                },
            }
        }
        Ok(out)
    }

    /// A command with its names replaced and its lists spread out.
    pub fn expand_all(&self, argv: &[String]) -> Result<Vec<String>, UnknownName> {
        let mut out = Vec::new();
        for argument in argv {
            match list_name(argument) {
                Some(name) => match self.lists.get(name) {
                    Some(values) => out.extend(values.iter().cloned()),
                    None => return Err(UnknownName(format!("{name}..."))),
                },
                None => out.push(self.expand(argument)?),
            }
        }
        Ok(out)
    }
}

/// The names that a text asks for, lists with their dots.
pub(super) fn names(text: &str) -> Vec<String> {
    match list_name(text) {
        Some(name) => vec![format!("{name}...")],
        None => pieces(text)
            .into_iter()
            .filter_map(|piece| match piece {
                Piece::Name(name) => Some(name.to_owned()),
                Piece::Text(_) => None,
            })
            .collect(),
    }
}

enum Piece<'a> {
    Text(&'a str),
    Name(&'a str),
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

fn list_name(argument: &str) -> Option<&str> {
    argument.strip_prefix("{{")?.strip_suffix("...}}").filter(|name| is_name(name))
}

fn pieces(mut text: &str) -> Vec<Piece<'_>> {
    let mut out = Vec::new();
    while let Some((before, after)) = text.split_once("{{") {
        match after.split_once("}}").filter(|(name, _)| is_name(name)) {
            Some((name, rest)) => {
                out.push(Piece::Text(before));
                out.push(Piece::Name(name));
                text = rest;
            }
            None => {
                // The second brace may be the first of a name's.
                let end = text.len() - after.len() - 1;
                out.push(Piece::Text(&text[..end]));
                text = &text[end..];
            }
        }
    }
    out.push(Piece::Text(text));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        let mut values = Values::default();
        values.set("layer.python", "/env/python");
        values.set("sly", "{{layer.python}}");
        values.lists.insert("packages".to_owned(), vec!["a==1".to_owned(), "b".to_owned()]);
        values.lists.insert("none".to_owned(), Vec::new());
        values
    }

    #[test]
    fn names_are_replaced_once_and_other_braces_stay() {
        let v = values();
        assert_eq!(v.expand("{{layer.python}}/bin:{{sly}}").unwrap(), "/env/python/bin:{{layer.python}}");
        assert_eq!(
            v.expand("{{ not a name }} {{{layer.python}}} ${x} {{").unwrap(),
            "{{ not a name }} {/env/python} ${x} {{"
        );
        assert_eq!(v.expand("{{nobody}}"), Err(UnknownName("nobody".to_owned())));
    }

    #[test]
    fn lists_spread_only_where_they_stand_alone() {
        let argv: Vec<String> = ["pip", "{{packages...}}", "{{none...}}", "end"].map(str::to_owned).to_vec();
        assert_eq!(values().expand_all(&argv).unwrap(), ["pip", "a==1", "b", "end"]);
        assert!(values().expand_all(&["{{sly...}}".to_owned()]).is_err());
        assert_eq!(names("{{packages...}}"), ["packages..."]);
        assert_eq!(names("x{{a}}/{{b.c}}"), ["a", "b.c"]);
    }
}
