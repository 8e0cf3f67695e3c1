//! Who may ask: whoever was given the address, from a page of this server, and nobody else.
//!
//! A request must name this server as its host, so that a name which somebody else's page makes stand for 127.0.0.1 leads nowhere; if it says
//! which page it comes from, that must be one of this server; and it must have the token, in the address that is opened first, from then on
//! in a cookie that browsers send from this server's pages alone. Nothing is ever shared with other origins, and without leave to act
//! nothing but `GET` is answered.

use std::io;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, header};

use super::answer::{Answer, Params};

/// Random bytes of a token.
const TOKEN_BYTES: usize = 24;

/// What is checked of every request.
pub(crate) struct Guard {
    port: u16,
    token: String,
    may_act: bool,
}

/// The one answer to whatever is not admitted: it says nothing of what there is.
pub(crate) fn refused() -> Result<(), Answer> {
    Err(Answer::plain(
        StatusCode::FORBIDDEN,
        "Open the address that `tensortap serve` printed: it has the token without which nothing is shown.\n",
    ))
}

impl Guard {
    pub fn new(port: u16, may_act: bool) -> io::Result<Guard> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Guard { port, token: BASE64_URL_SAFE_NO_PAD.encode(bytes), may_act })
    }

    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    /// Cookies know no ports, so that servers beside one another need names of their own.
    fn cookie_name(&self) -> String {
        format!("tensortap_{}", self.port)
    }

    /// Lets a request pass, or says what it gets instead.
    pub fn admit(&self, head: &Parts) -> Result<(), Answer> {
        let text = |name| head.headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?"));
        let ours = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        let hosts: Vec<&str> = text(header::HOST).collect();
        if hosts.len() != 1 || !ours.iter().any(|our| our == hosts[0]) {
            return refused();
        }
        let is_our_page = |origin: &str| ours.iter().any(|our| origin.strip_prefix("http://") == Some(our));
        if !text(header::ORIGIN).all(is_our_page) {
            return refused();
        }
        let given = Params::of(&head.uri);
        if given.get("token").is_some_and(|token| !self.is_token(token)) {
            return refused();
        }
        let cookies = text(header::COOKIE).flat_map(|line| line.split(';'));
        let name = self.cookie_name();
        let mut known =
            cookies.filter_map(|cookie| cookie.trim().split_once('=')).filter(|(key, _)| *key == name);
        if !known.any(|(_, token)| self.is_token(token)) {
            return self.admit_first(head);
        }
        match head.method {
            Method::GET => Ok(()),
            Method::POST if self.may_act => Ok(()),
            _ => Err(Answer::plain(
                StatusCode::METHOD_NOT_ALLOWED,
                "Nothing is changed or run from a page: start `tensortap serve` with --allow-actions for that.\n",
            )),
        }
    }

    /// The address that was printed: its token becomes a cookie, and leaves the address.
    fn admit_first(&self, head: &Parts) -> Result<(), Answer> {
        let given = Params::of(&head.uri);
        let is_first = head.method == Method::GET && head.uri.path() == "/";
        if !is_first || !given.get("token").is_some_and(|token| self.is_token(token)) {
            return refused();
        }
        let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie_name(), self.token);
        Err(Answer::redirect("/", &cookie))
    }

    /// Looks at every byte, so that the time it takes tells nothing.
    fn is_token(&self, given: &str) -> bool {
        let (given, token) = (given.as_bytes(), self.token.as_bytes());
        let differs = given.iter().zip(token).fold(0, |differs, (a, b)| differs | (a ^ b));
        given.len() == token.len() && differs == 0
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn guard(may_act: bool) -> Guard {
        Guard::new(4711, may_act).expect("random numbers")
    }

    /// The status that a request gets; 200 when it passes.
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

    #[test]
    fn only_our_pages_with_the_token_get_anything() {
        let guard = guard(false);
        let cookie = format!("a=b; tensortap_4711={}", guard.token);
        let (ours, cookie) = (("host", "127.0.0.1:4711"), ("cookie", cookie.as_str()));
        for (headers, expected) in [
            (&[ours, cookie][..], 200),
            (&[("host", "localhost:4711"), cookie], 200),
            (&[ours, cookie, ("origin", "http://127.0.0.1:4711")], 200),
            (&[ours], 403),
            (&[cookie], 403),
            (&[ours, ("cookie", "tensortap_4711=wrong")], 403),
            (&[ours, ("cookie", "tensortap_4711=")], 403),
            (&[ours, ("cookie", "tensortap_4712=x")], 403),
            (&[("host", "evil.example:4711"), cookie], 403),
            (&[("host", "127.0.0.1:80"), cookie], 403),
            (&[("host", "127.0.0.1"), cookie], 403),
            (&[ours, ("host", "evil.example"), cookie], 403),
            (&[ours, cookie, ("origin", "http://evil.example")], 403),
            (&[ours, cookie, ("origin", "null")], 403),
            (&[ours, cookie, ("origin", "https://127.0.0.1:4711")], 403),
            (&[ours, cookie, ("origin", "http://127.0.0.1:4711.evil.example")], 403),
        ] {
            assert_eq!(status(&guard, "GET", "/api/dumps", headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn the_first_address_leaves_a_cookie_and_nothing_else_takes_a_token() {
        let guard = guard(false);
        let ours = ("host", "127.0.0.1:4711");
        let with_token = |path: &str| format!("{path}?token={}", guard.token);
        assert_eq!(status(&guard, "GET", &with_token("/"), &[ours]), 303);
        assert_eq!(status(&guard, "GET", &with_token("/api/dumps"), &[ours]), 403);
        assert_eq!(status(&guard, "POST", &with_token("/"), &[ours]), 403);
        assert_eq!(status(&guard, "GET", &with_token("/"), &[("host", "evil.example:4711")]), 403);
        assert_eq!(status(&guard, "GET", "/?token=", &[ours]), 403);
        assert_eq!(status(&guard, "GET", "/?token=AAAA", &[ours]), 403);
        let cookie = format!("tensortap_4711={}", guard.token);
        assert_eq!(status(&guard, "GET", "/?token=AAAA", &[ours, ("cookie", &cookie)]), 403);
        assert_eq!(status(&guard, "GET", "/", &[ours, ("cookie", &cookie)]), 200);
        assert!(guard.address().ends_with(&with_token("/")));
        assert_ne!(guard.token, self::guard(false).token);
    }

    #[test]
    fn nothing_but_reading_is_answered_without_leave() {
        for (may_act, method, expected) in [
            (false, "GET", 200),
            (false, "POST", 405),
            (false, "DELETE", 405),
            (false, "OPTIONS", 405),
            (true, "POST", 200),
            (true, "PUT", 405),
        ] {
            let guard = guard(may_act);
            let cookie = format!("tensortap_4711={}", guard.token);
            let headers = [("host", "127.0.0.1:4711"), ("cookie", cookie.as_str())];
            assert_eq!(status(&guard, method, "/api/replay", &headers), expected, "{method}");
        }
    }
}
