//! Maps request paths to handlers.

use std::sync::Arc;

use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use super::answer::{Answer, Params, Problem};
use super::{State, actions, compare, graphs, lists, pictures, tasks, timeline};
use crate::assets::{self, Asset};
use crate::palette;

/// The page. Its modules render everything from documents.
const PAGE: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
    <meta name=\"color-scheme\" content=\"light dark\">\n<title>tensortap</title>\n\
    <link rel=\"icon\" href=\"data:,\">\n\
    <link rel=\"stylesheet\" href=\"/assets/tensortap.css\">\n<link rel=\"stylesheet\" href=\"/assets/palette.css\">\n\
    <link rel=\"stylesheet\" href=\"/assets/app.css\">\n\
    <script type=\"module\" src=\"/assets/app/main.js\"></script>\n</head>\n<body>\n\
    <noscript>This page needs JavaScript; its script is served by this machine.</noscript>\n</body>\n</html>\n";

/// Answers requests for the page and its files. `None` for requests that need work.
pub(crate) fn quick(state: &State, head: &Parts) -> Option<Answer> {
    let path = head.uri.path();
    if path.starts_with("/api/") {
        // Only instant answers are given on the reading thread.
        return (path == "/api/ping").then(|| Answer::json("{}"));
    }
    let _ = state;
    if head.method != Method::GET {
        return Some(missing());
    }
    if path == "/" {
        return Some(Answer::file("text/html; charset=utf-8", PAGE));
    }
    let file = path.strip_prefix("/assets/")?;
    Some(match file {
        "palette.css" => Answer::file("text/css; charset=utf-8", palette::css()),
        "tensortap.css" => Answer::file("text/css; charset=utf-8", assets::STYLE),
        "app.css" => Answer::file("text/css; charset=utf-8", assets::APP_STYLE),
        _ => {
            let mut all = assets::PARTS.iter().chain(assets::APP);
            let found = all.find(|asset: &&Asset| asset.path == file);
            found.map_or_else(missing, |asset| Answer::file(asset.media_type(), asset.text))
        }
    })
}

fn missing() -> Answer {
    Answer::plain(StatusCode::NOT_FOUND, "Not found.\n")
}

/// Answers API requests. Runs on a worker thread.
pub(crate) fn api(state: &Arc<State>, head: &Parts) -> Answer {
    let params = Params::of(&head.uri);
    let made = match (&head.method, head.uri.path()) {
        (&Method::GET, path) => get(state, path, &params),
        (&Method::POST, "/api/cancel") => Some(actions::cancel(state, &params)),
        (&Method::POST, path) if state.allow_actions => act(state, path, &params),
        _ => return missing(),
    };
    match made {
        Some(Ok(answer)) => answer,
        Some(Err(problem)) => Problem::into_answer(problem, StatusCode::BAD_REQUEST),
        None => missing(),
    }
}

fn get(state: &Arc<State>, path: &str, params: &Params) -> Option<Result<Answer, Problem>> {
    Some(match path {
        "/api/dumps" => Ok(tasks::dumps(state)),
        "/api/summary" => tasks::summary(state, params),
        "/api/records" => lists::records(state, params),
        "/api/tasks" => lists::tasks(state, params),
        "/api/task" => tasks::task(state, params),
        "/api/record" => pictures::record(state, params),
        "/api/tile" => pictures::tile(state, params),
        "/api/spread" => pictures::spread(state, params),
        "/api/profile" => pictures::profile(state, params),
        "/api/graph" => graphs::graph(state, params),
        "/api/timeline" => timeline::timeline(state, params),
        "/api/blame" => compare::blame(state, params),
        "/api/compare" => compare::compare(state, params),
        "/api/compare/rows" => compare::compare_rows(state, params),
        "/api/job" => actions::job(state, params),
        _ => return None,
    })
}

fn act(state: &Arc<State>, path: &str, params: &Params) -> Option<Result<Answer, Problem>> {
    Some(match path {
        "/api/replay" => actions::replay(state, params),
        "/api/export" => actions::export(state, params),
        _ => return None,
    })
}
