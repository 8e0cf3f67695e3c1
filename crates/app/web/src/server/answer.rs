//! Answers, and the headers that every answer has.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode, Uri};
use serde::Serialize;
use tensortap::analysis::AnalysisError;
use tensortap::format::FormatError;
use tensortap::interchange::InterchangeError;
use tensortap_query::{QueryError, SelectorError};

/// Pages may run, load and request only what this server provides. No page may be framed, and no form may be
/// sent.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every answer.
const ALWAYS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The answer to a request.
pub(crate) struct Answer {
    status: StatusCode,
    media: &'static str,
    body: Bytes,
}

impl Answer {
    fn new(status: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Answer {
        Answer { status, media, body: body.into() }
    }

    /// Plain text.
    pub fn plain(status: StatusCode, text: &'static str) -> Answer {
        Answer::new(status, "text/plain; charset=utf-8", text)
    }

    /// A file of the page.
    pub fn file(media: &'static str, body: impl Into<Bytes>) -> Answer {
        Answer::new(StatusCode::OK, media, body)
    }

    /// A document.
    pub fn document(document: &impl Serialize) -> Answer {
        match serde_json::to_vec(document) {
            Ok(body) => Answer::new(StatusCode::OK, "application/json", body),
            Err(_) => Answer::failed(),
        }
    }

    /// A document that is already serialized.
    pub fn json(text: impl Into<Bytes>) -> Answer {
        Answer::new(StatusCode::OK, "application/json", text)
    }

    /// The answer to an internal error.
    pub fn failed() -> Answer {
        Problem::new("the server failed to answer").into_answer(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The HTTP response.
    pub fn response(self) -> Response<Full<Bytes>> {
        let Answer { status, media, body } = self;
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        for (name, value) in ALWAYS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// An error message for the user.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Problem {
    /// What is wrong.
    pub error: String,
    /// What to do about it.
    pub hint: Option<String>,
}

#[expect(clippy::needless_pass_by_value, reason = "errors and texts are handed over as they come")]
impl Problem {
    pub fn new(error: impl ToString) -> Problem {
        Problem { error: error.to_string(), hint: None }
    }

    pub fn with_hint(error: impl ToString, hint: impl ToString) -> Problem {
        Problem { error: error.to_string(), hint: Some(hint.to_string()) }
    }

    pub fn into_answer(self, status: StatusCode) -> Answer {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        Answer::new(status, "application/json", body)
    }
}

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Problem {
        let hint = match &error {
            QueryError::Record { hint, .. } => Some(hint.clone()),
            QueryError::Unknown(unknown) => Some(match &unknown.did_you_mean {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are: {}", unknown.valid.join(", ")),
            }),
            _ => None,
        };
        Problem { error: error.to_string(), hint }
    }
}

impl From<FormatError> for Problem {
    fn from(error: FormatError) -> Problem {
        Problem::new(error)
    }
}

impl From<AnalysisError> for Problem {
    fn from(error: AnalysisError) -> Problem {
        Problem::new(error)
    }
}

impl From<InterchangeError> for Problem {
    fn from(error: InterchangeError) -> Problem {
        Problem::new(error)
    }
}

impl From<SelectorError> for Problem {
    fn from(error: SelectorError) -> Problem {
        Problem::with_hint(error, "selectors are those of the command line: func:mul stage:after nan")
    }
}

/// The query parameters of a request.
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    pub fn of(uri: &Uri) -> Params {
        let query = uri.query().unwrap_or_default();
        Params(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// A value; `None` if it is missing or empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// All values of a key.
    pub fn all<'p>(&'p self, key: &'p str) -> impl Iterator<Item = &'p str> {
        self.0.iter().filter(move |(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// A numeric value.
    pub fn number<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>, Problem> {
        let parse = |text: &str| {
            text.parse().map_err(|_| Problem::new(format!("`{key}` must be a number, not `{text}`")))
        };
        self.get(key).map(parse).transpose()
    }
}
