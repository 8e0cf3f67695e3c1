//! Prose of a file: paragraphs and table cells of Markdown, string literals and comments of source files.

/// Who reads a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Users: documentation, help, messages, the page, C headers.
    Users,
    /// Readers of the source: comments.
    Developers,
}

/// The form of a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Running text.
    Prose,
    /// One cell of a table.
    Cell,
    /// A line that a command printed, or a row of an example. It may be long.
    Line,
}

/// A piece of prose in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The line it begins in, from 1.
    pub line: usize,
    /// Its text in one line, with code replaced by `X`.
    pub text: String,
    /// Who reads it.
    pub audience: Audience,
    /// Its form.
    pub shape: Shape,
}

/// The prose of a file, in order. Files of other kinds have none.
///
/// ```
/// use tensortap_writing::{Audience, passages};
///
/// let source = "// Waits for the host.\nlet text = \"cannot open the dump\";\n";
/// let found = passages("src/a.rs", source);
/// assert_eq!(found[0].audience, Audience::Developers);
/// assert_eq!(found[1].text, "cannot open the dump");
/// ```
#[must_use]
pub fn passages(path: &str, text: &str) -> Vec<Passage> {
    let ending = path.rsplit('.').next().unwrap_or("");
    let test_code = path.contains("/tests/") || path.ends_with("tests.rs") || path.contains("/examples/");
    let mut found = match ending {
        "md" => markdown(text),
        "snap" => snapshot(text, path.contains("help")),
        "html" => markup(text),
        "rs" | "js" | "h" | "hpp" | "c" | "cpp" | "cl" | "cu" => source(text, ending),
        "py" | "toml" | "yml" => hash_comments(text),
        _ if path.starts_with("scripts/") || path.starts_with(".ci/") => hash_comments(text),
        _ => Vec::new(),
    };
    if test_code && ending != "md" && ending != "snap" {
        found.retain(|passage| passage.audience == Audience::Developers);
    }
    if path.starts_with("include/") {
        // The header is the manual of the C API.
        found.iter_mut().for_each(|passage| passage.audience = Audience::Users);
    }
    found
}

/// Collects lines into one passage until it is closed.
struct Paragraphs {
    found: Vec<Passage>,
    line: usize,
    text: String,
    audience: Audience,
}

impl Paragraphs {
    fn new(audience: Audience) -> Self {
        Self { found: Vec::new(), line: 0, text: String::new(), audience }
    }

    fn add(&mut self, line: usize, text: &str) {
        if self.text.is_empty() {
            self.line = line;
        } else {
            self.text.push(' ');
        }
        self.text.push_str(text.trim());
    }

    fn close(&mut self) {
        let text = without_code(&std::mem::take(&mut self.text));
        self.push(self.line, text, Shape::Prose);
    }

    fn cell(&mut self, line: usize, text: &str) {
        self.push(line, without_code(text), Shape::Cell);
    }

    fn push(&mut self, line: usize, text: String, shape: Shape) {
        if text.split_whitespace().count() > 1 {
            self.found.push(Passage { line, text, audience: self.audience, shape });
        }
    }
}

fn markdown(text: &str) -> Vec<Passage> {
    let mut paragraphs = Paragraphs::new(Audience::Users);
    let mut fenced = false;
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim();
        if trimmed.starts_with("```") {
            fenced = !fenced;
            paragraphs.close();
        } else if fenced {
        } else if let Some(row) = trimmed.strip_prefix('|') {
            paragraphs.close();
            let row = row.replace("\\|", "/");
            row.split('|').map(str::trim).for_each(|cell| paragraphs.cell(number, cell));
        } else if trimmed.is_empty() || trimmed.starts_with("<!--") {
            paragraphs.close();
        } else {
            let item = list_item(trimmed);
            if item.len() != trimmed.len() || trimmed.starts_with('#') {
                paragraphs.close();
            }
            paragraphs.add(number, item.trim_start_matches(['#', '>', ' ']));
            if trimmed.starts_with('#') {
                paragraphs.close();
            }
        }
    }
    paragraphs.close();
    paragraphs.found
}

/// The text of a list item, or the line itself.
fn list_item(line: &str) -> &str {
    if let Some(item) = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")) {
        return item;
    }
    let number = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    match number.strip_prefix(". ") {
        Some(item) if number.len() < line.len() => item,
        _ => line,
    }
}

/// A snapshot of terminal output. Help texts have options and paragraphs; in other output, every line is a passage.
fn snapshot(text: &str, is_help: bool) -> Vec<Passage> {
    let mut paragraphs = Paragraphs::new(Audience::Users);
    // The head of a snapshot ends at its second `---`.
    let head = text.split("---\n").take(2).map(str::len).sum::<usize>() + 8;
    let skipped = text.get(..head.min(text.len())).map_or(0, |head| head.lines().count());
    for (number, line) in (1..).zip(text.lines()).skip(skipped) {
        let text = line.trim();
        // Two columns: an option or an example, and its description.
        let (is_row, gap) = match text {
            _ if !is_help => (true, "   "),
            _ if text.starts_with('-') => (true, "  "),
            _ => (text.starts_with("tensortap ") || text.contains("   ") || text.ends_with(':'), "   "),
        };
        if is_row || text.is_empty() {
            paragraphs.close();
        }
        paragraphs.add(number, text.rsplit(gap).next().unwrap_or(text));
    }
    paragraphs.close();
    let mut found = paragraphs.found;
    for passage in &mut found {
        // The remarks that follow a description are no part of its sentence.
        let end = ["[default", "[possible", "default:", "possible values:"].iter();
        let end = end.filter_map(|remark| passage.text.find(remark)).min().unwrap_or(passage.text.len());
        passage.text.truncate(end);
        if !is_help || passage.text.starts_with("tensortap ") {
            passage.shape = Shape::Line;
        }
    }
    found
}

fn markup(text: &str) -> Vec<Passage> {
    let mut paragraphs = Paragraphs::new(Audience::Users);
    let mut inside = false;
    for (number, line) in (1..).zip(text.lines()) {
        let mut visible = String::new();
        for letter in line.chars() {
            match letter {
                '<' => inside = true,
                '>' => inside = false,
                letter if !inside => visible.push(letter),
                _ => {}
            }
        }
        paragraphs.add(number, &visible);
        paragraphs.close();
    }
    paragraphs.found
}

fn hash_comments(text: &str) -> Vec<Passage> {
    let mut paragraphs = Paragraphs::new(Audience::Developers);
    for (number, line) in (1..).zip(text.lines()) {
        match line.trim().strip_prefix('#') {
            Some(comment) if !comment.starts_with('!') && !comment.trim().is_empty() => {
                paragraphs.add(number, comment);
            }
            _ => paragraphs.close(),
        }
    }
    paragraphs.close();
    paragraphs.found
}

/// Comments and string literals of a language with `//` comments.
fn source(text: &str, ending: &str) -> Vec<Passage> {
    let mut paragraphs = Paragraphs::new(Audience::Developers);
    let mut messages = Paragraphs::new(Audience::Users);
    let mut scanner = Scanner { bytes: text.as_bytes(), at: 0, line: 1 };
    let mut fenced = false;
    while let Some(token) = scanner.next(ending) {
        match token {
            Token::Comment(line, comment) => {
                for (number, row) in (line..).zip(comment.lines()) {
                    let row = row.trim().trim_start_matches(['/', '!', '*']);
                    // Text that is indented this far is code.
                    let row = if row.starts_with("     ") { "" } else { row.trim() };
                    if row.starts_with("```") {
                        fenced = !fenced;
                        paragraphs.close();
                    } else if let Some(cells) = row.strip_prefix('|').filter(|_| !fenced) {
                        paragraphs.close();
                        cells.split('|').map(str::trim).for_each(|cell| paragraphs.cell(number, cell));
                    } else if row.is_empty() || fenced {
                        paragraphs.close();
                    } else if let Some(heading) = row.strip_prefix('#') {
                        paragraphs.close();
                        paragraphs.add(number, heading.trim_start_matches('#'));
                        paragraphs.close();
                    } else {
                        paragraphs.add(number, list_item(row));
                    }
                }
            }
            Token::Text(line, literal) => {
                if literal.starts_with("<!") {
                    let mut page = markup(literal);
                    page.iter_mut().for_each(|passage| passage.line += line - 1);
                    messages.found.append(&mut page);
                    continue;
                }
                // A blank line ends a paragraph, and an indented line is a row of a table or an example.
                let joined = without_placeholders(&without_continuations(literal)).replace("\\n", "\n");
                for row in joined.lines() {
                    let is_row = row.starts_with("  ") || row.trim().contains("   ");
                    if is_row || row.trim().is_empty() {
                        messages.close();
                    }
                    messages.add(line, &row.replace("\\\"", "\""));
                    if is_row {
                        messages.close();
                    }
                }
                messages.close();
            }
            Token::Code => {
                paragraphs.close();
                fenced = false;
            }
            Token::TestModule => break,
        }
    }
    paragraphs.close();
    // A literal of one or two words is a key or a name, not prose.
    messages.found.retain(|passage| passage.text.split_whitespace().count() > 2);
    let mut found = paragraphs.found;
    found.append(&mut messages.found);
    found.sort_by_key(|passage| passage.line);
    found
}

enum Token<'t> {
    Comment(usize, &'t str),
    Text(usize, &'t str),
    Code,
    /// Inline tests begin: the rest of the file is not text for users.
    TestModule,
}

/// Walks over source text. It knows just enough of the languages to tell code, comments and literals apart.
struct Scanner<'t> {
    bytes: &'t [u8],
    at: usize,
    line: usize,
}

impl<'t> Scanner<'t> {
    fn next(&mut self, ending: &str) -> Option<Token<'t>> {
        loop {
            let rest = &self.bytes[self.at..];
            let line = self.line;
            return Some(match rest {
                [] => return None,
                [b' ' | b'\t' | b'\n' | b'\r', ..] => {
                    self.take(1);
                    continue;
                }
                [b'/', b'/', ..] => Token::Comment(line, self.take(end_of(rest, 2, b"\n"))),
                [b'/', b'*', ..] => Token::Comment(line, self.take(end_of(rest, 2, b"*/") + 2)),
                [b'"', ..] => Token::Text(line, self.quoted(b'"')),
                [b'`', ..] if ending == "js" => Token::Text(line, self.quoted(b'`')),
                [b'\'', ..] if ending == "js" => Token::Text(line, self.quoted(b'\'')),
                // A character, not a lifetime.
                [b'\'', b'\\', _, ..] => {
                    self.take(2);
                    let close = end_of(&self.bytes[self.at..], 1, b"'") + 1;
                    self.take(close);
                    Token::Code
                }
                [b'\'', _, b'\'', ..] => {
                    self.take(3);
                    Token::Code
                }
                [b'r', b'"' | b'#', ..] if ending == "rs" && self.is_raw() => Token::Text(line, self.raw()),
                _ if rest.starts_with(b"#[cfg(test)]\nmod ") && ending == "rs" => Token::TestModule,
                _ => {
                    let word =
                        rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
                    self.take(word.max(1));
                    Token::Code
                }
            });
        }
    }

    /// Moves on by so many bytes and returns them.
    fn take(&mut self, length: usize) -> &'t str {
        let end = (self.at + length).min(self.bytes.len());
        let taken = &self.bytes[self.at..end];
        self.line += taken.iter().filter(|&&byte| byte == b'\n').count();
        self.at = end;
        std::str::from_utf8(taken).unwrap_or("")
    }

    /// The inside of a literal that ends at an unescaped quote.
    fn quoted(&mut self, quote: u8) -> &'t str {
        let rest = &self.bytes[self.at..];
        let mut end = 1;
        while end < rest.len() && rest[end] != quote {
            end += if rest[end] == b'\\' { 2 } else { 1 };
        }
        let literal = self.take(end + 1);
        literal.get(1..literal.len().saturating_sub(1)).unwrap_or("")
    }

    fn is_raw(&self) -> bool {
        let hashes = self.bytes[self.at + 1..].iter().take_while(|&&byte| byte == b'#').count();
        self.bytes.get(self.at + 1 + hashes) == Some(&b'"')
    }

    fn raw(&mut self) -> &'t str {
        let hashes = self.bytes[self.at + 1..].iter().take_while(|&&byte| byte == b'#').count();
        let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
        let start = hashes + 2;
        let end = end_of(&self.bytes[self.at..], start, &close);
        let literal = self.take(end + close.len());
        literal.get(start..end).unwrap_or("")
    }
}

/// Where a pattern begins at or after an offset, or the end.
fn end_of(bytes: &[u8], from: usize, pattern: &[u8]) -> usize {
    let tail = bytes.get(from..).unwrap_or(&[]);
    tail.windows(pattern.len()).position(|window| window == pattern).map_or(bytes.len(), |at| from + at)
}

/// A literal without the line ends that a backslash removes, and without the indentation after them.
fn without_continuations(literal: &str) -> String {
    let mut parts = literal.split("\\\n");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.trim_start());
    }
    text
}

/// A message with `X` in place of each placeholder, such as `{name}` and `{bytes:?}`.
fn without_placeholders(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:?#<>".contains(&byte);
        let length = after.bytes().take_while(|&byte| name(byte)).count();
        plain.push_str(before);
        rest = match after[length..].strip_prefix('}') {
            Some(rest) => {
                plain.push('X');
                rest
            }
            None => {
                plain.push('{');
                after
            }
        };
    }
    plain.push_str(rest);
    plain
}

/// Inline code and the targets of links read as `X` or not at all.
fn without_code(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for (number, part) in text.split('`').enumerate() {
        plain.push_str(if number % 2 == 0 { part } else { "X" });
    }
    while let Some(start) = plain.find("](") {
        let end = plain[start..].find(')').map_or(plain.len(), |length| start + length + 1);
        plain.replace_range(start..end, "");
    }
    plain.replace(['[', '*'], "")
}
