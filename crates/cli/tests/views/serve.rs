//! `tensortap serve`: its pages in a real browser, and what others get from it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tensortap::DeviceMode;
use tensortap::abi::{NO_KERNEL, Role, TaskRecord, TensorRecord};
use tensortap::format::{DumpWriter, Footer, IndexRecord, KernelInfo, Payload, RunInfo, Status};
use tensortap::{DType, DumpConfig, DumpLevel, DumpStage, RunConfig};

use crate::browser::Browser;
use crate::common::executable;

/// A server of this program, with its address.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start(args: &[&str]) -> Served {
        let mut child = Command::new(executable())
            .arg("serve")
            .arg("--no-open")
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut address = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut address).expect("a line");
        Served { child, address: address.trim().to_owned() }
    }

    fn port(&self) -> u16 {
        let rest = self.address.strip_prefix("http://127.0.0.1:").expect("loopback");
        rest.split('/').next().and_then(|port| port.parse().ok()).expect("a port")
    }

    /// The token as pages bring it.
    fn token(&self) -> String {
        format!("X-Tensortap-Token: {}", self.address.split("#token=").nth(1).expect("a token"))
    }

    /// The whole answer to a request of these lines, head and body.
    fn raw(&self, lines: &[&str]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port())).expect("it listens");
        let request = lines.join("\r\n") + "\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A document, asked for as a page does.
    fn document(&self, path: &str) -> Value {
        let host = format!("Host: 127.0.0.1:{}", self.port());
        let answer = self.raw(&[&format!("GET {path} HTTP/1.1"), &host, &self.token()]);
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        serde_json::from_str(body).unwrap_or_else(|_| panic!("{path}: {answer}"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A small run of a language model, right or with a fault.
pub fn run_tiny(folder: &Path, name: &str, fault: Option<(&str, &str)>) -> PathBuf {
    run_tokens(folder, name, 4, fault)
}

/// The same with more tokens: some 108 tasks each.
pub fn run_tokens(folder: &Path, name: &str, tokens: u32, fault: Option<(&str, &str)>) -> PathBuf {
    let mut config = RunConfig::new("tiny_llm").param("tokens", tokens).param("prompt", 2);
    config.device_mode = DeviceMode::Thread;
    config.dump = Some(DumpConfig::new(DumpLevel::Full));
    config.out = Some(folder.join(name));
    config.inject_fault = fault.map(|(kernel, kind)| (kernel.into(), kind.parse().expect("a fault")));
    crate::common::count_run();
    tensortap::run(&config).expect("it runs");
    folder.join(name)
}

fn task(task_id: u64) -> IndexRecord {
    IndexRecord::plain(&TaskRecord {
        task_id,
        func_id: [NO_KERNEL, 0, NO_KERNEL],
        block_num: 1,
        started_ns: task_id,
        completed_ns: u64::MAX - task_id,
        tensor_count: 1,
        ..TaskRecord::default()
    })
}

fn tensor(task_id: u64, shape: [u64; 2], payload: Payload) -> IndexRecord {
    let mut wide = [0; 8];
    wide[..2].copy_from_slice(&shape);
    IndexRecord::tensor(
        &TensorRecord {
            task_id,
            stage: DumpStage::AfterCompletion as u8,
            role: Role::Output.tag(),
            dtype: DType::Float32.tag(),
            ndims: 2,
            shape: wide,
            strides: [shape[1].cast_signed(), 1, 0, 0, 0, 0, 0, 0],
            ..TensorRecord::default()
        },
        payload,
    )
}

const ATTACK: &str = "<img src=x onerror=\"window.attacked=1\"><script>window.attacked=1</script>";

/// A dump whose every text is an attack, with shapes that nobody has memory for and no number that is one.
pub fn hostile(dir: &Path) {
    let kernel = KernelInfo { func_id: 0, name: format!("k{ATTACK}"), ..KernelInfo::default() };
    let info = RunInfo {
        scene: ATTACK.into(),
        platform: ATTACK.into(),
        kernels: vec![kernel],
        ..RunInfo::default()
    };
    let mut writer = DumpWriter::create(dir, &info).expect("created");
    let bytes: Vec<u8> = (0..64).flat_map(|_| f32::NAN.to_le_bytes()).collect();
    let offset = writer.reserve(bytes.len() as u64);
    std::os::unix::fs::FileExt::write_all_at(writer.payload_file().expect("a file"), &bytes, offset)
        .expect("written");
    let stored = Payload::Stored { offset, bytes: 256 };
    let huge = [1 << 26, 1 << 24];
    let cut = Payload::Truncated { offset, bytes: 256 };
    let frame = [
        task(1),
        tensor(1, [8, 8], stored),
        task(2),
        tensor(2, huge, cut),
        task(3),
        tensor(3, huge, Payload::None),
    ];
    writer.append(0, 0..6, &frame).expect("appended");
    writer.finish(&Footer::new(Status::Complete)).expect("finished");
}

#[test]
fn whoever_has_no_token_or_comes_from_elsewhere_gets_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    hostile(&folder.path().join("dump"));
    let served = Served::start(&[folder.path().join("dump").to_str().expect("text")]);
    let host = format!("Host: 127.0.0.1:{}", served.port());
    let token = served.token();
    let get = "GET /api/dumps HTTP/1.1";
    let refused = |lines: &[&str]| {
        let answer = served.raw(lines);
        assert!(answer.starts_with("HTTP/1.1 403"), "{lines:?}: {answer}");
        assert!(!answer.contains("onerror") && !answer.contains("records"), "{answer}");
        assert!(!answer.to_lowercase().contains("access-control"), "{answer}");
    };
    refused(&[get, &host]);
    refused(&[get, &host, "Cookie: tensortap_1=x"]);
    let cookie = token.replace("X-Tensortap-Token: ", &format!("Cookie: tensortap_{}=", served.port()));
    refused(&[get, &host, &cookie]);
    refused(&["GET / HTTP/1.1", "Host: evil.example"]);
    refused(&["GET /assets/app/main.js HTTP/1.1", &host, "Sec-Fetch-Site: same-site"]);
    refused(&[get, &host, &token, "Sec-Fetch-Site: cross-site"]);
    refused(&["GET http://evil.example/api/dumps HTTP/1.1", &host, &token]);
    refused(&[get, "Host: evil.example", &token]);
    refused(&[get, &host, &token, "Origin: http://evil.example"]);
    refused(&[
        "OPTIONS /api/dumps HTTP/1.1",
        &host,
        "Origin: http://evil.example",
        "Access-Control-Request-Method: GET",
    ]);
    let post = served.raw(&["POST /api/export?format=npy HTTP/1.1", &host, &token]);
    assert!(post.starts_with("HTTP/1.1 405"), "{post}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing was written");
    // The page itself is everybody's, leaves nothing with the browser and says nothing of a dump.
    let page = served.raw(&["GET / HTTP/1.1", &host]);
    assert!(page.starts_with("HTTP/1.1 200") && !page.to_lowercase().contains("set-cookie"), "{page}");
    assert!(!page.contains("onerror"), "{page}");
    let answer = served.raw(&[get, &host, &token]).to_lowercase();
    assert!(answer.starts_with("http/1.1 200"), "{answer}");
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
        "content-type: application/json",
    ] {
        assert!(answer.contains(header), "{answer}");
    }
    // No request names a file.
    for path in [
        "/../../etc/passwd",
        "/assets/../Cargo.toml",
        "/api/records?dump=/etc",
        "/api/records?dump=7",
        "/etc/passwd",
    ] {
        let answer = served.raw(&[&format!("GET {path} HTTP/1.1"), &host, &token]);
        assert!(answer.starts_with("HTTP/1.1 40") && !answer.contains("root:"), "{path}: {answer}");
    }
}

/// Asks again and again without reading an answer, until nothing more can be sent.
fn ask_and_never_read(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_nonblocking(true).expect("not waiting");
    let many = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").repeat(200);
    while stream.write(many.as_bytes()).is_ok() {}
    stream
}

#[test]
fn connections_that_never_read_or_never_ask_lock_nobody_out() {
    let folder = tempfile::tempdir().expect("a folder");
    hostile(&folder.path().join("dump"));
    let served = Served::start(&[folder.path().join("dump").to_str().expect("text")]);
    let port = served.port();
    let silent = || TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    for hold in [&(|| ask_and_never_read(port)) as &dyn Fn() -> TcpStream, &silent] {
        let held: Vec<TcpStream> = (0..80).map(|_| hold()).collect();
        for _ in 0..3 {
            assert!(served.document("/api/dumps")["dumps"].is_array());
        }
        drop(held);
    }
}

#[test]
fn with_leave_a_page_replays_and_exports_and_gives_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = run_tiny(folder.path(), "dump", None);
    let served = Served::start(&[dump.to_str().expect("text"), "--allow-actions"]);
    let host = format!("Host: 127.0.0.1:{}", served.port());
    let token = served.token();
    let post = |path: &str| -> Value {
        let answer = served.raw(&[&format!("POST {path} HTTP/1.1"), &host, &token, "Content-Length: 0"]);
        serde_json::from_str(answer.split_once("\r\n\r\n").expect("a body").1).expect("JSON")
    };
    let ended = |mut job: Value| loop {
        if job["state"] != "running" {
            break job;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        job = served.document(&format!("/api/job?job={}", job["job"]));
    };
    let exported = ended(post("/api/export?format=npy&q=func:softmax+stage:after"));
    assert_eq!(exported["state"], "done", "{exported}");
    let (files, out) = (&exported["document"]["files"], folder.path().join("dump_npy"));
    assert_eq!(files.as_u64(), Some(std::fs::read_dir(&out).expect("a folder").count() as u64 - 1));
    assert_eq!(
        post("/api/export?format=exe")["hint"].as_str().map(|hint| hint.contains("safetensors")),
        Some(true)
    );
    let replayed = ended(post("/api/replay?task=softmax"));
    assert_eq!(
        (&replayed["state"], &replayed["document"]["verdict"]),
        (&"done".into(), &"pass".into()),
        "{replayed}"
    );
    assert_eq!(replayed["document"]["tasks"], 1);
    assert_eq!(post("/api/cancel?job=1")["job"], 1);
    // A change is never made by what only asks.
    assert!(
        served.raw(&["GET /api/replay?task=softmax HTTP/1.1", &host, &token]).starts_with("HTTP/1.1 404")
    );
}

#[test]
fn lists_answer_as_the_command_line_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = run_tiny(folder.path(), "dump", None);
    let text = dump.to_str().expect("text");
    let served = Served::start(&[text]);
    let list = |args: &[&str]| -> Vec<Value> {
        let out = Command::new(executable())
            .arg("list")
            .arg(text)
            .args(args)
            .arg("--json")
            .output()
            .expect("it runs");
        let document: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        document["records"].as_array().expect("records").clone()
    };
    let listed = |args: &[&str]| -> Vec<u64> {
        list(args).iter().map(|record| record["index"].as_u64().expect("an index")).collect()
    };
    let complete = |path: &str| loop {
        let answer = served.document(path);
        if answer["complete"] == true {
            break answer;
        }
    };
    for (search, sort, args) in [
        ("", "", &[][..]),
        ("func:softmax+stage:after", "", &["--func", "softmax", "--stage", "after"]),
        ("--role+input", "-bytes", &["--role", "input", "--sort", "-bytes"]),
        ("softmax", "shape", &["--task", "softmax", "--sort", "shape"]),
        ("nan", "", &["--nan"]),
    ] {
        let expected = listed(args);
        let answer = complete(&format!("/api/records?q={search}&sort={sort}&from=3&count=20"));
        assert_eq!(answer["total"].as_u64(), Some(expected.len() as u64), "{search}");
        let rows = answer["rows"].as_array().expect("rows");
        let shown: Vec<u64> = rows.iter().map(|row| row["record"].as_u64().expect("a record")).collect();
        assert_eq!(shown, expected.iter().copied().skip(3).take(20).collect::<Vec<_>>(), "{search} {sort}");
    }
    let tasks = complete("/api/tasks?q=func:softmax&sort=task&count=500");
    let rows = tasks["rows"].as_array().expect("rows").iter();
    let ids: Vec<String> = rows.map(|row| row["task"].as_str().expect("a task").to_owned()).collect();
    let of_records = list(&["--func", "softmax"]).into_iter().map(|record| {
        let id = record["task_id"].as_str().expect("an id").trim_start_matches("0x").to_owned();
        format!("0x{}", id.trim_start_matches('0'))
    });
    let expected: std::collections::BTreeSet<String> = of_records.collect();
    assert_eq!(ids, expected.into_iter().collect::<Vec<_>>());
    let by_time = complete("/api/tasks?q=func:softmax&sort=-took&count=500");
    assert_eq!(by_time["total"], tasks["total"]);
    let wrong = served.document("/api/tasks?q=func:sofmax");
    assert_eq!(wrong["hint"], "did you mean `softmax`?");
}

/// Takes pictures of pages where `TENSORTAP_SCREENSHOTS` names a folder for them.
struct Camera<'b> {
    browser: &'b Browser,
    folder: Option<PathBuf>,
}

impl Camera<'_> {
    /// A page in light and dark, wide and narrow: it must fit into each.
    fn take(&self, name: &str) {
        for (width, height, dark) in
            [(1280, 860, false), (1280, 860, true), (390, 844, false), (390, 844, true)]
        {
            self.browser.look(width, height, dark);
            // Two frames later everything is drawn.
            self.browser.run(
                "window.drawnAgain = 0; requestAnimationFrame(() => requestAnimationFrame(() => { window.drawnAgain = 1 }))",
            );
            self.browser.wait("return window.drawnAgain === 1");
            let wide = self.browser.run("return document.documentElement.scrollWidth - innerWidth");
            assert!(wide.as_i64() <= Some(0), "{name} is {wide} pixels wider than {width}");
            if let Some(folder) = &self.folder {
                let colour = if dark { "dark" } else { "light" };
                self.browser.screenshot(&folder.join(format!("serve-{name}-{width}-{colour}.png")));
            }
        }
        self.browser.look(1280, 860, false);
    }
}

#[test]
fn people_look_at_a_run_in_a_browser() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let right = run_tiny(folder.path(), "right", None);
    let wrong = run_tiny(folder.path(), "wrong", Some(("softmax", "sign")));
    let [right, wrong] = [&right, &wrong].map(|path| path.to_str().expect("text"));
    let served = Served::start(&[wrong, "--golden", right]);
    let camera =
        Camera { browser: &browser, folder: std::env::var_os("TENSORTAP_SCREENSHOTS").map(PathBuf::from) };
    browser.look(1280, 860, false);

    // Opened: the token leaves the address, and the list is there.
    browser.open(&served.address);
    let page = browser.says("attention");
    assert!(page.contains("tiny_llm") && page.contains("rows"), "{page}");
    assert_eq!(browser.run("return location.search + location.hash"), "#/tasks?golden=1");
    // No other server of this machine is told the token, and a page that is loaded again still has it.
    assert_eq!(browser.run("return document.cookie"), "");
    browser.run("location.reload()");
    browser.says("attention");
    camera.take("tasks");

    // Searched, by keyboard alone: what is found, and what is not, with what may be meant.
    browser.type_keys("/");
    browser.type_keys("func:softmax\u{e007}");
    let found = browser.wait("const n = document.querySelector('.table-count')?.textContent; return n?.includes(' of ') ? n : null");
    let asked = served.document("/api/tasks?q=func:softmax");
    assert!(
        found.as_str().is_some_and(|words| words.starts_with(&format!("{} of ", asked["total"]))),
        "{found}"
    );
    browser.run("location.hash = '#/tasks?golden=1&q=func:sofmax'");
    browser.says("did you mean `softmax`?");
    assert!(browser.complaints().iter().all(|complaint| complaint.contains("sofmax")), "it was asked for");
    // Back is where one was.
    browser.run("history.back()");
    browser.wait(
        "return location.hash.includes('softmax') && document.querySelectorAll('.rows tbody tr').length > 8",
    );

    // Blamed: the first wrong task, and its label everywhere from then on.
    browser.click("nav a", "Compare");
    browser.click("button", "Find the first wrong task");
    let verdict = browser.says("Tasks by label");
    assert!(
        verdict.contains("Wrong first") && verdict.contains("softmax") && verdict.contains("wrong here"),
        "{verdict}"
    );
    camera.take("compare");

    // Compared, record by record: what is outside comes first.
    browser.click("button", "Compare every record");
    browser.says("outside their rule");
    let first = browser.wait("return document.querySelector('.rows tbody tr:nth-child(2)')?.textContent");
    assert!(first.as_str().is_some_and(|row| row.contains("softmax") && row.contains("fail")), "{first}");

    // The task: given and left, beside its golden.
    browser.click(".culprit a", "softmax");
    let task = browser.says("Taken by");
    for words in [
        "Given by",
        "attention_scores",
        "attention_values",
        "wrong here",
        "golden after",
        "difference after",
        "outside its rule",
    ] {
        assert!(task.contains(words), "{words}: {task}");
    }
    browser.wait("return document.querySelectorAll('.thumb canvas').length >= 2");
    camera.take("task");

    // A tensor: a slice of it, as heat map, numbers and image, with the value under the cursor.
    browser.run("location.hash = '#/tasks?golden=1&q=embed'");
    browser.wait(
        "return location.hash.includes('embed') && document.querySelector('.rows tbody tr:nth-child(2)')",
    );
    let largest = served.document("/api/records?q=stage:before+shape:*x*&sort=-bytes&count=1");
    let record = largest["rows"][0]["record"].as_u64().expect("a record");
    browser.run(&format!("location.hash = '#/tensor?golden=1&record={record}'"));
    browser.wait("return document.querySelector('.tensor-panels canvas') && document.querySelector('.bars') ? true : null");
    let middle = browser.run(
        "const box = document.querySelector('.tensor-panels canvas').getBoundingClientRect(); \
         return [Math.ceil(box.left + 1), Math.ceil(box.top + 1)]",
    );
    let at = |place: usize| middle[place].as_u64().expect("a number");
    browser.point(at(0), at(1));
    browser
        .wait("return document.querySelector('.tensor-panels .readout').textContent.includes('axis 0 at 0')");
    camera.take("tensor");
    browser.click(".choice button", "Numbers");
    browser.run("const s = document.querySelector('.slice'); s.value = '1:3,-2:'; s.dispatchEvent(new Event('change'))");
    let shown = browser.wait(
        "const cells = [...document.querySelectorAll('.tensor-panels .numbers')][0]?.querySelectorAll('tbody td'); \
         return cells?.length === 4 ? [...cells].map((cell) => cell.textContent) : null",
    );
    let out = Command::new(executable())
        .args(["show", wrong, &record.to_string(), "--slice", "1:3,-2:"])
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&out.stdout).into_owned();
    for number in shown.as_array().expect("numbers") {
        assert!(told.contains(number.as_str().expect("text")), "{number} is none of\n{told}");
    }
    assert!(
        browser.run("return location.hash").as_str().is_some_and(|hash| hash.contains("slice=1%3A3%2C-2%3A"))
    );
    browser.click(".choice button", "Image");
    browser.wait("return document.querySelector('.image canvas')");

    // The graph: scopes unfold, and a task leads to its page.
    browser.click("nav a", "Graph");
    let boxes = "return document.querySelectorAll('.graph .box').length";
    let folded = browser.wait(boxes).as_u64().expect("a count");
    camera.take("graph");
    browser.click(".graph .box", "token 3");
    browser.wait(&format!("return document.querySelectorAll('.graph .box').length > {folded}"));
    browser.click(".controls button", "− token 3");
    browser.wait(&format!("return document.querySelectorAll('.graph .box').length === {folded}"));
    browser.click(".controls button", "The way of the error");
    browser.wait("return [...document.querySelectorAll('.graph .box')].some((box) => box.textContent.includes('softmax'))");
    browser.click(".graph .box", "softmax");
    browser.says("Taken by");

    // The time: every task is in it, and a key leads to one.
    browser.click("nav a", "Timeline");
    browser.wait("return document.querySelector('.timeline canvas')");
    let lines = served.document("/api/timeline?golden=1&width=4000");
    let count = |key: &str| lines[key].as_u64().expect("a count");
    let drawn: usize = lines["tracks"]
        .as_array()
        .expect("tracks")
        .iter()
        .map(|t| t["start"].as_array().map_or(0, Vec::len))
        .sum();
    assert_eq!(count("slices"), drawn as u64 + count("merged"));
    assert_eq!(
        count("slices"),
        served.document("/api/tasks?count=1")["of"].as_u64().expect("tasks"),
        "a slice for each task"
    );
    camera.take("timeline");
    browser.run("document.querySelector('.timeline canvas').focus()");
    browser.type_keys("nn\u{e007}");
    browser.says("Taken by");

    assert_eq!(browser.complaints(), [""; 0], "nothing went wrong in the pages");
}

#[test]
fn a_run_that_goes_on_is_followed_and_a_hostile_dump_is_text() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (growing, bad) = (folder.path().join("growing"), folder.path().join("hostile"));
    hostile(&bad);
    let kernel = KernelInfo { func_id: 0, name: "scale".into(), ..KernelInfo::default() };
    let info = RunInfo { scene: "endless".into(), kernels: vec![kernel], ..RunInfo::default() };
    let mut writer = DumpWriter::create(&growing, &info).expect("created");
    let mut append = |from: u64, to: u64| {
        let frame: Vec<IndexRecord> =
            (from..to).flat_map(|id| [task(id), tensor(id, [8, 8], Payload::None)]).collect();
        writer.append(0, 2 * from..2 * to, &frame).expect("appended");
    };
    append(0, 3);
    let served = Served::start(&[growing.to_str().expect("text"), bad.to_str().expect("text")]);
    browser.open(&served.address);
    browser.says("still being written");
    browser.wait("return document.querySelector('.table-count')?.textContent === '3 rows'");
    append(3, 40);
    browser.wait("return document.querySelector('.table-count')?.textContent === '40 rows'");
    browser.says("40 records");
    writer.finish(&Footer::new(Status::Complete)).expect("finished");
    browser.wait("return !document.body.innerText.includes('still being written')");

    // Every room of the hostile dump shows its texts as text.
    for (place, words) in [
        ("#/tasks?dump=1", "<script>"),
        ("#/records?dump=1", "67108864x16777216"),
        ("#/task?dump=1&task=0x1", "NaN: 64"),
        ("#/task?dump=1&task=0x2", "onerror"),
        ("#/tensor?dump=1&record=0", "64 NaN"),
        ("#/tensor?dump=1&record=1", "not stored"),
        ("#/tensor?dump=1&record=2", "not stored"),
        ("#/graph?dump=1", "<img"),
        ("#/timeline?dump=1", "slices"),
        ("#/tasks?dump=1&q=%3Cimg%20src%3Dx%20onerror%3D%22window.attacked%3D1%22%3E", "there is no"),
    ] {
        browser.run(&format!("location.hash = {}", serde_json::json!(place)));
        let all = "document.body.innerText + [...document.querySelectorAll('svg text, svg title')].map((t) => t.textContent).join()";
        let words = serde_json::json!(words);
        browser.wait(&format!(
            "const t = {all}; return t.replaceAll(/\\s+/g, ' ').includes({words}) ? true : null"
        ));
    }
    let came_through = "return window.attacked ?? document.querySelectorAll('main img, main script').length";
    assert_eq!(browser.run(came_through), 0, "nothing of a dump became markup or ran");

    // Another server of this machine hears nothing of the token, and its page gets nothing.
    let port = served.port();
    let (other, heard) = listen_once();
    browser.open(&format!("http://127.0.0.1:{other}/"));
    let heard = heard.join().expect("it was asked");
    let token = served.token().replace("X-Tensortap-Token: ", "");
    assert!(heard.starts_with("GET / ") && !heard.contains(&token), "{heard}");
    assert_eq!(browser.run("return document.cookie + Object.values(sessionStorage).join()"), "");
    for elsewhere in [None, Some("data:text/html,elsewhere")] {
        elsewhere.inspect(|address| browser.open(address));
        let got = browser.run(&format!(
            "return fetch('http://127.0.0.1:{port}/api/dumps', {{ credentials: 'include' }}).then((r) => r.text(), () => 'nothing')"
        ));
        assert_eq!(got, "nothing");
    }
    browser.open(&format!("http://127.0.0.1:{port}/#token=wrong"));
    assert!(browser.says("token without which").len() < 200);
    // The right address, opened where the page is already.
    browser.open(&served.address);
    browser.says("40 records");
}

/// Another server on a port of its own, for one request: the port, and what it heard.
fn listen_once() -> (u16, std::thread::JoinHandle<String>) {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let heard = std::thread::spawn(move || {
        loop {
            let (mut stream, _) = listener.accept().expect("somebody comes");
            let mut head = String::new();
            let mut lines = BufReader::new(stream.try_clone().expect("cloned"));
            // A browser may knock without a word first.
            while !head.ends_with("\r\n\r\n") && lines.read_line(&mut head).is_ok_and(|bytes| bytes > 0) {}
            if head.is_empty() {
                continue;
            }
            let answer = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(answer.as_bytes()).expect("answered");
            break head;
        }
    });
    (port, heard)
}

#[test]
fn dumps_of_processes_are_named_with_the_run_they_are_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let all = ["monday/pid-7", "tuesday/pid-8", "a/same", "b/same", "own"];
    all.iter().for_each(|name| hostile(&folder.path().join(name)));
    let served = Served::start(&all.map(path).each_ref().map(String::as_str));
    let dumps = served.document("/api/dumps");
    let names: Vec<&str> =
        dumps["dumps"].as_array().expect("dumps").iter().filter_map(|dump| dump["name"].as_str()).collect();
    assert_eq!(names, all);
    let alone = Served::start(&[folder.path().join("a/same").to_str().expect("text")]);
    assert_eq!(alone.document("/api/dumps")["dumps"][0]["name"], "same");
}
