//! Access control: only pages of this server, opened with the printed address, get data.
//!
//! A request must name this server as its host; this stops DNS rebinding, where a foreign page makes its own
//! name resolve to 127.0.0.1. If a request says which page it comes from, that must be a page of this server.
//! The page and its files contain nothing of a dump and need no token; everything else needs the token in a
//! header. The token follows `#` in the address, which browsers do not send to servers; the page stores it
//! for its own origin. It is not a cookie, because cookies ignore ports and would be sent to every other
//! server of this machine. Nothing is shared with other origins. Without --allow-actions, only `GET` is
//! answered.

use std::io;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::header::HeaderName;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, header};

use super::answer::Answer;

/// Random bytes of a token.
const TOKEN_BYTES: usize = 24;
/// The header with the token.
const TOKEN: HeaderName = HeaderName::from_static("x-tensortap-token");
/// The header in which browsers say which site a request comes from.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Checks every request.
pub(crate) struct Guard {
    port: u16,
    token: String,
    may_act: bool,
}

/// The answer to every rejected request. It reveals nothing about the server's content.
pub(crate) fn refused() -> Answer {
    Answer::plain(
        StatusCode::FORBIDDEN,
        "Open the address that `tensortap serve` printed; it contains the access token.\n",
    )
}

impl Guard {
    pub fn new(port: u16, may_act: bool) -> io::Result<Guard> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Guard { port, token: BASE64_URL_SAFE_NO_PAD.encode(bytes), may_act })
    }

    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/#token={}", self.port, self.token)
    }

    /// Admits a request, or returns the answer that rejects it.
    pub fn admit(&self, head: &Parts) -> Result<(), Answer> {
        if !self.is_for_us(head) || !self.is_from_us(head) {
            return Err(refused());
        }
        if !is_page(head) && !self.has_token(head) {
            return Err(refused());
        }
        match head.method {
            Method::GET => Ok(()),
            // A client that may start a job may also cancel it.
            Method::POST if self.may_act || head.uri.path() == "/api/cancel" => Ok(()),
            _ => Err(Answer::plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "This server is read-only: start `tensortap serve` with --allow-actions to run kernels or write files.\n",
            )),
        }
    }

    /// Whether a request has the token exactly once.
    pub fn has_token(&self, head: &Parts) -> bool {
        let given: Vec<&str> = texts(head, TOKEN).collect();
        given.len() == 1 && self.is_token(given[0])
    }

    /// Whether a name in a request is this server.
    fn is_our_name(&self, name: &str) -> bool {
        [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)].iter().any(|our| our == name)
    }

    /// Whether a request is addressed to this server, by its `Host` and by its target if that names a server.
    fn is_for_us(&self, head: &Parts) -> bool {
        let hosts: Vec<&str> = texts(head, header::HOST).collect();
        let target = head.uri.authority().is_none_or(|name| self.is_our_name(name.as_str()));
        let scheme = head.uri.scheme_str().is_none_or(|scheme| scheme == "http");
        hosts.len() == 1 && self.is_our_name(hosts[0]) && target && scheme
    }

    /// Whether a request does not come from a foreign page. Pages on other ports are foreign.
    fn is_from_us(&self, head: &Parts) -> bool {
        let is_ours =
            |origin: &str| origin.strip_prefix("http://").is_some_and(|name| self.is_our_name(name));
        texts(head, header::ORIGIN).all(is_ours)
            && texts(head, FETCH_SITE).all(|site| site == "same-origin" || site == "none")
    }

    /// Compares all bytes, so that timing reveals nothing about the token.
    fn is_token(&self, given: &str) -> bool {
        let (given, token) = (given.as_bytes(), self.token.as_bytes());
        let differs = given.iter().zip(token).fold(0, |differs, (a, b)| differs | (a ^ b));
        given.len() == token.len() && differs == 0
    }
}

/// The values of a header. A value that is not text becomes `?`, which matches nothing.
fn texts(head: &Parts, name: HeaderName) -> impl Iterator<Item = &str> {
    head.headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or("?"))
}

/// Whether a request is for the page or one of its files, which are the same for everybody.
fn is_page(head: &Parts) -> bool {
    let path = head.uri.path();
    head.method == Method::GET && (path == "/" || path.starts_with("/assets/"))
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn guard(may_act: bool) -> Guard {
        Guard::new(4711, may_act).expect("random numbers")
    }

    /// The status of a request; 200 if it is admitted.
    fn status(guard: &Guard, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        match guard.admit(&head) {
            Ok(()) => 200,
            Err(answer) => answer.response().status().as_u16(),
        }
    }

    const OURS: (&str, &str) = ("host", "127.0.0.1:4711");

    #[test]
    fn only_our_pages_with_the_token_are_admitted() {
        let guard = guard(false);
        let cookie = format!("tensortap_4711={}", guard.token);
        let token = ("x-tensortap-token", guard.token.as_str());
        for (headers, expected) in [
            (&[OURS, token][..], 200),
            (&[("host", "localhost:4711"), token], 200),
            (&[OURS, token, ("origin", "http://127.0.0.1:4711")], 200),
            (&[OURS, token, ("sec-fetch-site", "same-origin")], 200),
            (&[OURS, token, ("sec-fetch-site", "none")], 200),
            (&[OURS], 403),
            (&[token], 403),
            (&[OURS, ("cookie", &cookie)], 403),
            (&[OURS, ("x-tensortap-token", "wrong")], 403),
            (&[OURS, ("x-tensortap-token", "")], 403),
            (&[OURS, ("x-tensortap-token", "wrong"), token], 403),
            (&[("host", "evil.example:4711"), token], 403),
            (&[("host", "127.0.0.1:80"), token], 403),
            (&[("host", "127.0.0.1"), token], 403),
            (&[OURS, ("host", "evil.example"), token], 403),
            (&[OURS, token, ("origin", "http://evil.example")], 403),
            (&[OURS, token, ("origin", "null")], 403),
            (&[OURS, token, ("origin", "https://127.0.0.1:4711")], 403),
            (&[OURS, token, ("origin", "http://127.0.0.1:4712")], 403),
            (&[OURS, token, ("origin", "http://127.0.0.1:4711.evil.example")], 403),
            (&[OURS, token, ("sec-fetch-site", "same-site")], 403),
            (&[OURS, token, ("sec-fetch-site", "cross-site")], 403),
        ] {
            assert_eq!(status(&guard, "GET", "/api/dumps", headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn only_the_page_and_its_files_need_no_token() {
        let guard = guard(true);
        let evil = ("host", "evil.example:4711");
        for (method, path, headers, expected) in [
            ("GET", "/", &[OURS][..], 200),
            ("GET", "/assets/app/main.js", &[OURS], 200),
            ("GET", "/", &[evil], 403),
            ("GET", "/", &[OURS, ("sec-fetch-site", "cross-site")], 403),
            ("GET", "/assets/app/main.js", &[OURS, ("sec-fetch-site", "same-site")], 403),
            ("POST", "/", &[OURS], 403),
            ("GET", "/api/ping", &[OURS], 403),
            ("GET", "/api", &[OURS], 403),
            ("GET", "/favicon.ico", &[OURS], 403),
        ] {
            assert_eq!(status(&guard, method, path, headers), expected, "{method} {path} {headers:?}");
        }
        let in_address = format!("/api/dumps?token={}", guard.token);
        assert_eq!(status(&guard, "GET", &in_address, &[OURS]), 403);
        assert_eq!(guard.address(), format!("http://127.0.0.1:4711/#token={}", guard.token));
        assert_ne!(guard.token, self::guard(false).token);
    }

    #[test]
    fn a_target_that_names_another_server_is_not_ours() {
        let guard = guard(false);
        let token = ("x-tensortap-token", guard.token.as_str());
        for (target, expected) in [
            ("http://127.0.0.1:4711/api/dumps", 200),
            ("http://evil.example/api/dumps", 403),
            ("http://127.0.0.1:80/api/dumps", 403),
            ("http://me@127.0.0.1:4711/api/dumps", 403),
            ("https://127.0.0.1:4711/api/dumps", 403),
        ] {
            assert_eq!(status(&guard, "GET", target, &[OURS, token]), expected, "{target}");
        }
    }

    #[test]
    fn without_actions_only_get_is_admitted() {
        for (may_act, method, expected) in [
            (false, "GET", 200),
            (false, "POST", 405),
            (false, "DELETE", 405),
            (false, "OPTIONS", 405),
            (true, "POST", 200),
            (true, "PUT", 405),
        ] {
            let guard = guard(may_act);
            let headers = [OURS, ("x-tensortap-token", guard.token.as_str())];
            assert_eq!(status(&guard, method, "/api/replay", &headers), expected, "{method}");
            assert_eq!(status(&guard, "POST", "/api/cancel", &headers), 200, "a job can be canceled");
        }
    }
}
