//! The files of the pages, as they lie in `assets/`.

/// A file of `assets/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Its path below `assets/`, with `/` between names.
    pub path: &'static str,
    /// What is in it.
    pub text: &'static str,
}

impl Asset {
    /// Its type, as a server says it.
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

/// The style sheet of every page. It uses the colours of [`crate::palette::css`], which stands behind it.
pub const STYLE: &str = include_str!("../assets/tensortap.css");

/// Components that pages share, each behind those that it uses: the order in which they can be made one script.
pub const PARTS: &[Asset] = assets![
    "parts/dom.js",
    "parts/table.js",
    "parts/heatmap.js",
    "parts/histogram.js",
    "parts/timeline.js",
    "parts/graph.js",
    "parts/found.js",
];

/// The report, behind [`PARTS`].
pub const REPORT: &[Asset] = assets!["report/report.js"];

/// The page of the server, beside [`PARTS`].
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

/// Its style, beside [`STYLE`].
pub const APP_STYLE: &str = include_str!("../assets/app/app.css");
