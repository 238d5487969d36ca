//! The comments of a Rust file, which Rust parsers drop.

/// A line with a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Line number, from 1.
    pub line: usize,
    /// Column of the comment's end, from the start of the line.
    pub end: usize,
    /// Text after `//`, `///` or `//!`.
    pub text: String,
    /// Whether the line contains nothing else.
    pub is_alone: bool,
}

/// All line comments of a Rust text. Block comments (`/*` to `*/`) are not used in this repository.
pub fn comments(text: &str) -> Vec<Comment> {
    let mut found = Vec::new();
    let mut state = State::Code;
    for (number, line) in text.lines().enumerate() {
        if let Some(start) = scan(line, &mut state) {
            found.push(Comment {
                line: number + 1,
                end: line.chars().count(),
                text: line[start..].trim_start_matches(['/', '!']).to_owned(),
                is_alone: line[..start].trim().is_empty(),
            });
        }
    }
    found
}

/// State of the scanner at the end of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Code,
    /// In a string literal.
    Text,
    /// In a raw string literal, which ends with a quotation mark and this many `#`.
    Raw(usize),
}

/// The byte at which a comment begins in a line.
fn scan(line: &str, state: &mut State) -> Option<usize> {
    let bytes = line.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &line.as_bytes()[at..];
        match *state {
            State::Text => match rest[0] {
                b'\\' => at += 1,
                b'"' => *state = State::Code,
                _ => {}
            },
            State::Raw(hashes) => {
                let marks = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
                if rest[0] == b'"' && marks >= hashes {
                    *state = State::Code;
                    at += hashes;
                }
            }
            State::Code if rest.starts_with(b"//") => return Some(at),
            State::Code => at += code(rest, at > 0 && is_word(bytes[at - 1]), state),
        }
        at += 1;
    }
    None
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Number of bytes to skip in addition to the first.
fn code(rest: &[u8], within_word: bool, state: &mut State) -> usize {
    match rest[0] {
        b'"' => *state = State::Text,
        b'r' if !within_word => {
            let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
            if rest.get(1 + hashes) == Some(&b'"') {
                *state = State::Raw(hashes);
                return 1 + hashes;
            }
        }
        // A character literal, not a lifetime.
        b'\'' if rest.get(1) == Some(&b'\\') => {
            return rest.iter().skip(3).position(|&byte| byte == b'\'').map_or(0, |at| at + 3);
        }
        b'\'' => {
            let end = rest.iter().skip(2).take(4).position(|&byte| byte == b'\'');
            let is_lifetime = rest.get(1).is_some_and(|&byte| is_word(byte)) && end != Some(0);
            return if is_lifetime { 0 } else { end.map_or(0, |at| at + 2) };
        }
        _ => {}
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_distinguished_from_strings() {
        let text = concat!(
            "//! Top.\n",
            "let a = \"// no\"; // yes, a\n",
            "let b = r#\"// \" no\"#; /// yes, b\n",
            "let c = '\"'; let d: &'a str = \"x\"; // yes, c\n",
            "let e = \"open\n",
            "// no\n",
            "\"; // yes, e\n",
            "let f = '\\''; // yes, f\n",
        );
        let found: Vec<(usize, String, bool)> = comments(text)
            .into_iter()
            .map(|comment| (comment.line, comment.text.trim().to_owned(), comment.is_alone))
            .collect();
        let expected = [
            (1, "Top.", true),
            (2, "yes, a", false),
            (3, "yes, b", false),
            (4, "yes, c", false),
            (7, "yes, e", false),
            (8, "yes, f", false),
        ];
        let expected: Vec<(usize, String, bool)> =
            expected.into_iter().map(|(line, text, alone)| (line, text.into(), alone)).collect();
        assert_eq!(found, expected);
    }
}
