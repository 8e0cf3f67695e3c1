//! A self-contained page: its text, its data, and a content security policy that lets nothing else run.

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// A page in one file.
pub struct Page<'a> {
    /// Its title, as text.
    pub title: &'a str,
    /// The content before any script runs, as markup in which dump text went through [`escaped`].
    pub body: &'a str,
    /// Its style sheet.
    pub style: &'a str,
    /// Its only script, a module.
    pub script: &'a str,
}

impl Page<'_> {
    /// The whole page. Its script reads `data` as JSON from the element with the id `data`.
    ///
    /// # Errors
    /// The data cannot be serialized as JSON.
    pub fn with_data(&self, data: &impl Serialize) -> serde_json::Result<String> {
        let Page { title, body, style, script } = self;
        let data = json_text(data)?;
        let policy = policy(style, script);
        let mut page = String::with_capacity(data.len() + style.len() + script.len() + body.len() + 1024);
        page += "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
        let _ = writeln!(page, "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">");
        page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
        page += "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n";
        let _ = writeln!(page, "<title>{}</title>", escaped(title));
        let _ = writeln!(page, "<style>{style}</style>\n</head>\n<body>\n{body}");
        let _ = writeln!(page, "<script type=\"application/json\" id=\"data\">{data}</script>");
        let _ = writeln!(page, "<script type=\"module\">{script}</script>\n</body>\n</html>");
        Ok(page)
    }
}

/// A policy that allows only this style and this script: no other file, request, form or frame.
fn policy(style: &str, script: &str) -> String {
    format!(
        "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
        hash_source(script),
        hash_source(style)
    )
}

/// The policy source of an inline text: its SHA-256 hash.
fn hash_source(text: &str) -> String {
    format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text.as_bytes())))
}

/// JSON that is safe inside a `script` element: it contains no `<`, and no line separator that older
/// JavaScript parsers reject.
///
/// # Errors
/// The data cannot be serialized as JSON.
pub fn json_text(data: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string(data)?;
    // All three occur only in strings, where these escapes mean the same.
    Ok(text.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029"))
}

/// Escapes text for markup: between tags or in a quoted attribute.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_data_of_a_dump_cannot_open_a_tag() {
        let hostile = "</title></script><script>alert(1)</script>&\u{2028}<!--";
        let body = format!("<p>{}</p>", escaped(hostile));
        let page = Page { title: hostile, body: &body, style: "p{}", script: "let a = 1;" };
        let page = page.with_data(&[hostile]).expect("JSON");
        assert_eq!(page.matches("<script").count(), 2, "{page}");
        assert_eq!(page.matches("</script").count(), 2, "{page}");
        assert_eq!(page.matches("</title").count(), 1, "{page}");
        assert!(!page.contains("<!--"), "{page}");
        let (_, data) = page.split_once("id=\"data\">").expect("data");
        let (data, _) = data.split_once("</script>").expect("its end");
        assert!(!data.contains('<') && !data.contains('\u{2028}'), "{data}");
        assert_eq!(serde_json::from_str::<Vec<String>>(data).expect("JSON"), [hostile]);
    }

    #[test]
    fn the_policy_contains_the_hashes_of_style_and_script() {
        // The hash of the empty text, as printed by `printf '' | openssl dgst -sha256 -binary | base64`.
        assert_eq!(hash_source(""), "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
        let page = Page { title: "", body: "", style: "p{}", script: "let a = 1;" };
        let page = page.with_data(&()).expect("JSON");
        for text in ["p{}", "let a = 1;"] {
            assert!(page.contains(&hash_source(text)), "{page}");
        }
        assert!(page.contains("default-src 'none'"), "{page}");
    }
}
