//! Screenshots of pages: light and dark, wide and narrow.

use std::path::PathBuf;

use crate::browser::Browser;

/// Takes screenshots if `TENSORTAP_SCREENSHOTS` names a folder for them.
pub struct Camera<'b> {
    browser: &'b Browser,
    folder: Option<PathBuf>,
}

impl Camera<'_> {
    /// A camera for this browser.
    pub fn new(browser: &Browser) -> Camera<'_> {
        Camera { browser, folder: std::env::var_os("TENSORTAP_SCREENSHOTS").map(PathBuf::from) }
    }

    /// Takes a page in light and dark, wide and narrow. The page must fit the width of each.
    pub fn take(&self, name: &str) {
        for (width, height, dark) in
            [(1280, 860, false), (1280, 860, true), (390, 844, false), (390, 844, true)]
        {
            self.browser.look(width, height, dark);
            // Everything is drawn after two frames.
            self.browser.run(
                "window.drawnAgain = 0; requestAnimationFrame(() => requestAnimationFrame(() => { window.drawnAgain = 1 }))",
            );
            self.browser.wait("return window.drawnAgain === 1");
            let wide = self.browser.run("return document.documentElement.scrollWidth - innerWidth");
            assert!(wide.as_i64() <= Some(0), "{name} is {wide} pixels wider than {width}");
            if let Some(folder) = &self.folder {
                let scheme = if dark { "dark" } else { "light" };
                self.browser.screenshot(&folder.join(format!("{name}-{width}-{scheme}.png")));
            }
        }
        self.browser.look(1280, 860, false);
    }
}
