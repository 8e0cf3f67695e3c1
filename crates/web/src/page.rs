//! A page that stands alone: its text, its data, and the policy that lets nothing else run.

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// A page in one file.
pub struct Page<'a> {
    /// Its title, as text.
    pub title: &'a str,
    /// What stands in it before any script runs, as markup that [`escaped`] everything it was given.
    pub body: &'a str,
    /// Its style.
    pub style: &'a str,
    /// Its one script, a module.
    pub script: &'a str,
}

impl Page<'_> {
    /// The whole page; its script finds `data` as JSON in the element `data`.
    ///
    /// # Errors
    /// The data cannot be JSON.
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

/// Lets this style and this script in, and nothing else: no other file, no request, no form, no frame.
fn policy(style: &str, script: &str) -> String {
    format!(
        "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
        hash_source(script),
        hash_source(style)
    )
}

/// How a policy names a text that may be inline.
fn hash_source(text: &str) -> String {
    format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text.as_bytes())))
}

/// JSON that cannot end the element it stands in: no `<` is left in it, and no line separator that older scripts stumble over.
///
/// # Errors
/// The data cannot be JSON.
pub fn json_text(data: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string(data)?;
    // All three can stand in strings alone, where these escapes mean the same.
    Ok(text.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029"))
}

/// Text as it may stand in markup, between tags or in a quoted attribute.
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
    fn text_and_data_of_a_dump_open_no_tag() {
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
    fn the_policy_names_style_and_script_as_they_stand() {
        // Of the empty text, as `printf '' | openssl dgst -sha256 -binary | base64` says.
        assert_eq!(hash_source(""), "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
        let page = Page { title: "", body: "", style: "p{}", script: "let a = 1;" };
        let page = page.with_data(&()).expect("JSON");
        for text in ["p{}", "let a = 1;"] {
            assert!(page.contains(&hash_source(text)), "{page}");
        }
        assert!(page.contains("default-src 'none'"), "{page}");
    }
}
