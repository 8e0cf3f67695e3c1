//! Finds program-scope variables in OpenCL C source: variables that keep their value between launches. Some
//! drivers (PoCL) support them but do not report them.
//!
//! Only the source text is read. Macros and included files are not expanded. In doubt, the program has
//! variables.

use std::iter::Peekable;
use std::str::Chars;

/// Whether the source declares program-scope variables.
pub fn has_variables(source: &str) -> bool {
    let tokens = without_attributes(tokens(source));
    let mut rest = &tokens[..];
    let mut statement: Vec<&str> = Vec::new();
    while let Some((token, after)) = rest.split_first() {
        rest = after;
        match token.as_str() {
            "{" => {
                let (block, after) = block(rest);
                rest = after;
                let is_function = statement.contains(&"(") && !statement.contains(&"=");
                if is_function && has_static(block) {
                    return true;
                }
                match is_function {
                    true => statement.clear(),
                    // The members of a type, or an initializer.
                    false => statement.push("{}"),
                }
            }
            ";" => {
                if is_variable(&statement) {
                    return true;
                }
                statement.clear();
            }
            token => statement.push(token),
        }
    }
    false
}

/// The tokens up to the closing brace, and the tokens after it.
fn block(tokens: &[String]) -> (&[String], &[String]) {
    let mut depth = 1;
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (&tokens[..at], &tokens[at + 1..]);
        }
    }
    (tokens, &[])
}

/// Whether a function has static variables.
fn has_static(block: &[String]) -> bool {
    let mut statements = block.split(|token| matches!(token.as_str(), ";" | "{" | "}"));
    statements.any(|statement| {
        let statement: Vec<&str> = statement.iter().map(String::as_str).collect();
        statement.contains(&"static") && is_variable(&statement)
    })
}

/// Whether a declaration declares a variable that can be written.
fn is_variable(statement: &[&str]) -> bool {
    let declared = statement.split(|token| *token == "=").next().unwrap_or_default();
    let has = |wanted: &[&str]| declared.iter().any(|token| wanted.contains(token));
    // Parentheses belong to a function, or to an unknown macro.
    if has(&["typedef", "constant", "__constant", "("]) || (has(&["const"]) && !has(&["*"])) {
        return false;
    }
    let is_qualifier =
        |token: &&&str| matches!(**token, "global" | "__global" | "static" | "extern" | "const" | "volatile");
    let declared: Vec<&str> = declared.iter().filter(|token| !is_qualifier(token)).copied().collect();
    let is_name = |token: &&str| token.starts_with(|first: char| first.is_alphabetic() || first == '_');
    match declared.split_first() {
        Some((&("struct" | "union" | "enum"), of)) => {
            // The tag and the members declare no variable.
            let members = of.iter().position(|token| *token == "{}");
            let after = members.map_or(of.get(1..).unwrap_or_default(), |at| &of[at + 1..]);
            after.iter().any(is_name)
        }
        // A type, and the name of the variable.
        _ => declared.iter().filter(|token| is_name(token)).count() > 1,
    }
}

/// Splits source into names, numbers and punctuation. Comments, strings and preprocessor lines are skipped.
fn tokens(source: &str) -> Vec<String> {
    let (mut tokens, mut text, mut is_at_start) = (Vec::new(), source.chars().peekable(), true);
    while let Some(next) = text.next() {
        match next {
            '\n' => {
                is_at_start = true;
                continue;
            }
            _ if next.is_whitespace() => continue,
            '/' if text.next_if_eq(&'/').is_some() => {
                pass_line(&mut text);
                continue;
            }
            '/' if text.next_if_eq(&'*').is_some() => {
                let mut last = ' ';
                for next in text.by_ref() {
                    if (last, next) == ('*', '/') {
                        break;
                    }
                    last = next;
                }
                continue;
            }
            '#' if is_at_start => pass_line(&mut text),
            '"' | '\'' => {
                while let Some(inside) = text.next().filter(|inside| *inside != next) {
                    if inside == '\\' {
                        text.next();
                    }
                }
            }
            _ if next.is_alphanumeric() || next == '_' => {
                let mut word = String::from(next);
                while let Some(next) = text.next_if(|next| next.is_alphanumeric() || *next == '_') {
                    word.push(next);
                }
                tokens.push(word);
            }
            sign => tokens.push(sign.into()),
        }
        is_at_start = false;
    }
    tokens
}

/// Skips a line and its continuation lines, but not the line end.
fn pass_line(text: &mut Peekable<Chars<'_>>) {
    while let Some(next) = text.next_if(|next| *next != '\n') {
        if next == '\\' {
            text.next_if_eq(&'\r');
            text.next_if_eq(&'\n');
        }
    }
}

/// Removes attributes.
fn without_attributes(tokens: Vec<String>) -> Vec<String> {
    let (mut kept, mut tokens) = (Vec::with_capacity(tokens.len()), tokens.into_iter().peekable());
    while let Some(token) = tokens.next() {
        let is_attribute = matches!(token.as_str(), "__attribute__" | "__attribute");
        if !is_attribute || tokens.peek().is_none_or(|next| next != "(") {
            kept.push(token);
            continue;
        }
        let mut depth = 0;
        for token in tokens.by_ref() {
            match token.as_str() {
                "(" => depth += 1,
                ")" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::has_variables;

    const KERNEL: &str = "kernel void k(global int *x) { int n = 3; local int room[4]; x[n] = 1; }";

    #[test]
    fn program_scope_variables_are_found() {
        for source in [
            "__global int counter = 3;",
            "global float sums[2][3] = {{1, 2, 3}, {4, 5, 6}};",
            "int counter;",
            "global unsigned int a, b;",
            "struct pair { int a, b; } pairs[4];",
            "typedef struct { int a; } one; global one all;",
            "__attribute__((aligned(16))) global uint x;",
            "global const int *p;",
            "void f(int a) { static int calls; calls += a; }",
            "#define X 1 \\\n int y\nglobal int z;",
        ] {
            assert!(has_variables(&format!("{source}\n{KERNEL}")), "{source}");
            assert!(has_variables(&format!("{KERNEL}\n{source}")), "{source}");
        }
    }

    #[test]
    fn other_declarations_are_no_program_scope_variables() {
        for source in [
            "",
            "__constant float table[3] = {1, 2, 3};",
            "constant int n = 4;",
            "const int three = 3;",
            "typedef struct { int a; global int *b; } one;",
            "struct pair { int a, b; }; struct later; enum { A, B = 3 }; union both { int a; float b; };",
            "float f(global float *x, int n);",
            "__attribute__((overloadable)) int f(int x) { return x; }",
            "// global int a;\n/* global int b; */\n#define C global int c;\n#pragma OPENCL EXTENSION x : enable",
            "constant char text[] = \"; global int d;\"; constant char one = '\\'';",
            "float f(float x) { static constant int t[2] = {1, 2}; return x * t[0]; }",
            "MACRO(a, b); OTHER;",
        ] {
            assert!(!has_variables(&format!("{source}\n{KERNEL}")), "{source}");
        }
    }

    #[test]
    fn invalid_source_ends_the_search() {
        for source in ["{{{", "}}}", "/* ", "\"", "'\\", "#\\", "__attribute__((", "= ; = {"] {
            assert!(!has_variables(source), "{source}");
        }
    }
}
