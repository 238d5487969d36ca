//! Escapes text from another machine, for printing on a terminal and in a log.

use std::fmt::Write;

/// `bytes` as text on one line, in which a terminal or a log reader finds only text: control
/// characters, marks that change the direction of writing, quotation marks, backslashes and invalid
/// UTF-8 are escaped.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\'' | '\\' => text.extend(['\\', character]),
                _ if is_hidden(character) => text.extend(character.escape_unicode()),
                _ => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Text of several words, such as a server's reason, escaped like [`printable`] but with its
/// quotation marks.
pub(crate) fn printable_reason(reason: &str) -> String {
    reason
        .chars()
        .flat_map(|character| {
            let hidden = is_hidden(character);
            let escaped = hidden.then(|| character.escape_unicode()).into_iter().flatten();
            escaped.chain((!hidden).then_some(character))
        })
        .collect()
}

/// Text of this program that may have several lines and quote names: each line is escaped like
/// [`printable_reason`].
pub(crate) fn printable_lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(printable_reason).collect();
    lines.join("\n")
}

/// Whether a character is a control character, a line separator or a zero-width mark.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_line_or_their_quotation_marks() {
        for (raw, shown) in [
            (&b"a b/c.img"[..], "a b/c.img"),
            ("größe \u{1f600}".as_bytes(), "größe \u{1f600}"),
            (b"ok'\nforged: 'x", "ok\\'\\u{a}forged: \\'x"),
            (b"\x1b[2Jgone\x07\r", "\\u{1b}[2Jgone\\u{7}\\u{d}"),
            (b"\xff\xfe\\n", "\\xff\\xfe\\\\n"),
            ("gnp.\u{202e}exe\u{9b}1m".as_bytes(), "gnp.\\u{202e}exe\\u{9b}1m"),
        ] {
            assert_eq!(printable(raw), shown);
        }
        assert_eq!(printable_reason("'a' is\ta\x1b[1m dir"), "'a' is\\u{9}a\\u{1b}[1m dir");
        assert_eq!(printable_lines("a\n'b'\r\n"), "a\n'b'\\u{d}\n");
    }
}
