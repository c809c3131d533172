//! Server-sent events out of bytes as they come.

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Its name; empty where it has none.
    pub name: String,
    /// Its data lines, with newlines between them.
    pub data: String,
}

/// Splits a stream into events. Lines may end in any of the three ways, and anywhere in a chunk; comments are passed over.
#[derive(Debug, Default)]
pub(super) struct Parser {
    line: Vec<u8>,
    after_return: bool,
    event: Event,
    has_data: bool,
    begun: bool,
}

impl Parser {
    /// Takes more bytes and gives the events that are whole now.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    events.extend(self.line(&line));
                }
                _ => {
                    self.after_return = false;
                    self.line.push(*byte);
                }
            }
        }
        events
    }

    fn line(&mut self, line: &[u8]) -> Option<Event> {
        let text = String::from_utf8_lossy(line);
        let mut text = text.as_ref();
        if !std::mem::replace(&mut self.begun, true) {
            text = text.strip_prefix('\u{feff}').unwrap_or(text);
        }
        if text.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // Comments, ids and retry times.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn events_come_out_the_same_however_the_bytes_are_cut() {
        let text = "\u{feff}: ping\r\n\r\nevent: a\r\ndata: 1\r\ndata: 2ä\r\n\r\ndata:x\n\nid: 7\n\nevent: only\n\rdata: last\r\rdata: torn";
        let wanted = [event("a", "1\n2ä"), event("", "x"), event("", "last")];
        for size in 1..text.len() {
            let mut parser = Parser::default();
            let events: Vec<Event> = text.as_bytes().chunks(size).flat_map(|chunk| parser.take(chunk)).collect();
            assert_eq!(events, wanted, "in pieces of {size}");
        }
    }
}
