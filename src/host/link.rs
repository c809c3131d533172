//! The `Link` header: where the next page is.

/// The address with relation `next`.
pub(super) fn next(header: &str) -> Option<&str> {
    let mut rest = header;
    while let Some(open) = rest.find('<') {
        let end = open + rest[open..].find('>')?;
        let address = &rest[open + 1..end];
        rest = &rest[end + 1..];
        // Parameters go up to the next address.
        let parameters = rest.find('<').map_or(rest, |at| &rest[..at]);
        let is_next = parameters.split([';', ',']).any(|p| {
            let relation = p.trim().strip_prefix("rel=").map(|r| r.trim_matches('"'));
            relation.is_some_and(|r| r.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case("next")))
        });
        if is_next {
            return Some(address);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_among_others() {
        let header = "<https://h/x?page=1>; rel=\"prev\", <https://h/x?a=1,2&page=3>; rel=\"next\", <https://h/x?page=9>; rel=\"last\"";
        assert_eq!(next(header), Some("https://h/x?a=1,2&page=3"));
        assert_eq!(next("<u>; rel=next"), Some("u"));
        assert_eq!(next("<u>; title=\"x\"; rel=\"last next\""), Some("u"));
        for none in ["", "<u>; rel=\"last\"", "<u", "<u>", "next"] {
            assert_eq!(next(none), None, "{none}");
        }
    }
}
