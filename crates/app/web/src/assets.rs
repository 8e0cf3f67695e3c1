//! The files of the pages, embedded from `assets/`.

/// A file of `assets/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Its path below `assets/`, with `/` as separator.
    pub path: &'static str,
    /// Its content.
    pub text: &'static str,
}

impl Asset {
    /// Its media type for the `Content-Type` header.
    #[must_use]
    pub fn media_type(&self) -> &'static str {
        if self.path.ends_with(".css") { "text/css; charset=utf-8" } else { "text/javascript; charset=utf-8" }
    }
}

macro_rules! assets {
    ($($path:literal),* $(,)?) => {
        &[$(Asset { path: $path, text: include_str!(concat!("../assets/", $path)) }),*]
    };
}

/// The style sheet of every page. It uses the colors of [`crate::palette::css`], which must follow it.
pub const STYLE: &str = include_str!("../assets/tensortap.css");

/// Components shared by the pages. Each follows the ones it uses, so that they can be joined into one script.
pub const PARTS: &[Asset] = assets![
    "parts/dom.js",
    "parts/table.js",
    "parts/heatmap.js",
    "parts/histogram.js",
    "parts/timeline.js",
    "parts/graph.js",
    "parts/findings.js",
];

/// The report. It follows [`PARTS`].
pub const REPORT: &[Asset] = assets!["report/report.js"];

/// The page of the server. It uses [`PARTS`].
pub const APP: &[Asset] = assets![
    "app/actions.js",
    "app/api.js",
    "app/bits.js",
    "app/compare.js",
    "app/graph.js",
    "app/lists.js",
    "app/main.js",
    "app/task.js",
    "app/tensor.js",
    "app/timeline.js",
];

/// The style of the server's page, in addition to [`STYLE`].
pub const APP_STYLE: &str = include_str!("../assets/app/app.css");
