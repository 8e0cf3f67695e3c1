//! A browser driven through `chromedriver`, with the few WebDriver commands that the tests need.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// A browser with one page.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

/// The path of a program, if it is installed.
fn found(names: &[&str]) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    names.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file()))
}

impl Browser {
    /// Starts a browser. Without one installed, prints a notice and returns `None`; if
    /// `TENSORTAP_SKIP_NOTHING` is set, as in CI, it panics instead.
    pub fn start() -> Option<Browser> {
        let (driver, browser) =
            (found(&["chromedriver"]), found(&["chromium", "chromium-browser", "google-chrome"]));
        let (Some(driver), Some(browser)) = (driver, browser) else {
            assert!(
                std::env::var_os("TENSORTAP_SKIP_NOTHING").is_none(),
                "chromium and chromedriver must be installed"
            );
            eprintln!("skipped: chromium and chromedriver are not installed");
            return None;
        };
        let mut driver = Command::new(driver)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let mut lines = BufReader::new(driver.stdout.take().expect("piped")).lines();
        let port = lines.find_map(|line| {
            let line = line.expect("a line");
            line.split_once("started successfully on port ")?.1.trim_end_matches('.').parse().ok()
        });
        // Keep reading its output, so that it never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let mut started =
            Browser { driver, port: port.expect("chromedriver says its port"), session: String::new() };
        let options = json!({
            "binary": browser,
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900",
                     "--hide-scrollbars", "--no-first-run", "--disable-background-networking", "--disable-component-update"],
        });
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "unhandledPromptBehavior": "ignore",
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let answer = started.call("POST", "/session", &wanted);
        started.session = answer["sessionId"].as_str().expect("a session").to_owned();
        Some(started)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("chromedriver listens");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("sent");
        let mut answer = Vec::new();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a head");
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().expect("a length");
            }
            if line.trim().is_empty() {
                break;
            }
        }
        reader.take(length).read_to_end(&mut answer).expect("a body");
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        let value = answer["value"].clone();
        assert!(value.get("error").is_none_or(Value::is_null), "{method} {path}: {value}");
        value
    }

    fn command(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}/{path}", self.session), body)
    }

    /// Opens an address.
    pub fn open(&self, address: &str) {
        self.command("url", &json!({ "url": address }));
    }

    /// Runs a script in the page and returns its result.
    pub fn run(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Runs the script until its result is neither null, false, 0 nor empty, and returns that result.
    pub fn wait(&self, script: &str) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let value = self.run(script);
            if !matches!(&value, Value::Null | Value::Bool(false)) && value != json!("") && value != json!(0)
            {
                return value;
            }
            if Instant::now() >= until {
                let page = self.run("return document.body.innerText");
                panic!("never came: {script}\nthe page says:\n{}", page.as_str().unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(25));
        }
    }

    /// Waits until the page contains a text, and returns the text of the page.
    pub fn says(&self, text: &str) -> String {
        let quoted = json!(text).to_string();
        let script = format!("const t = document.body.innerText; return t.includes({quoted}) ? t : null");
        self.wait(&script).as_str().unwrap_or_default().to_owned()
    }

    /// Clicks the first element that matches the selector and contains the words.
    pub fn click(&self, selector: &str, words: &str) {
        let (selector, words) = (json!(selector), json!(words));
        self.wait(&format!(
            "const e = [...document.querySelectorAll({selector})].find((e) => (e.textContent + (e.ariaLabel ?? '')).includes({words}));
             if (!e) return null; e.dispatchEvent(new MouseEvent('click', {{ bubbles: true, cancelable: true }})); return true"
        ));
    }

    /// Presses keys in the focused element.
    pub fn type_keys(&self, keys: &str) {
        let presses: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
            })
            .collect();
        self.command("actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": presses }] }));
    }

    /// Moves the pointer to a point of the page.
    pub fn point(&self, x: u64, y: u64) {
        let moves = json!([{ "type": "pointerMove", "duration": 0, "x": x, "y": y }]);
        self.command(
            "actions",
            &json!({ "actions": [{ "type": "pointer", "id": "mouse", "actions": moves }] }),
        );
    }

    /// Sets the size of the page and its color scheme.
    pub fn look(&self, width: u64, height: u64, dark: bool) {
        let cdp = |method: &str, params: &Value| {
            self.command("goog/cdp/execute", &json!({ "cmd": method, "params": params }));
        };
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        cdp("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        cdp(
            "Emulation.setEmulatedMedia",
            &json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] }),
        );
    }

    /// Writes a PNG screenshot to a file.
    pub fn screenshot(&self, file: &Path) {
        let picture = self.call("GET", &format!("/session/{}/screenshot", self.session), &Value::Null);
        std::fs::write(file, base64(picture.as_str().expect("a picture"))).expect("written");
    }

    /// Script errors and policy violations since the last call.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.command("se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().cloned().unwrap_or_default();
        let severe = entries.iter().filter(|entry| entry["level"] == "SEVERE");
        severe.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.call("DELETE", &format!("/session/{}", self.session), &Value::Null);
        } else if !self.session.is_empty() {
            // Close the browser whatever the state of the session is.
            let path = format!("/session/{}", self.session);
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                self.call("DELETE", &path, &Value::Null)
            }));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Decodes base64.
fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for group in text.trim_end_matches('=').as_bytes().chunks(4) {
        let word = group.iter().fold(0_u32, |word, &c| word << 6 | u32::from(digit(c)));
        let word = word << (6 * (4 - group.len()));
        bytes.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    bytes
}
