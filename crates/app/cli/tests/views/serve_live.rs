//! `tensortap serve`: a dump that still grows, and a hostile dump, in a real browser.

use std::io::{BufRead, BufReader, Write};

use tensortap::format::{DumpWriter, Footer, IndexRecord, KernelInfo, Payload, RunInfo, Status};

use crate::browser::Browser;
use crate::camera::Camera;
use crate::served::{ServeProcess, hostile, task, tensor};

#[test]
fn follows_a_growing_dump_and_shows_a_hostile_dump_as_text() {
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
    let served = ServeProcess::start(&[growing.to_str().expect("text"), bad.to_str().expect("text")]);
    browser.open(&served.address);
    browser.says("still being written");
    browser.wait("return document.querySelector('.table-count')?.textContent === '3 rows'");
    append(3, 40);
    browser.wait("return document.querySelector('.table-count')?.textContent === '40 rows'");
    browser.says("40 records");
    Camera::new(&browser).take("serve-live");
    writer.finish(&Footer::new(Status::Complete)).expect("finished");
    browser.wait("return !document.body.innerText.includes('still being written')");

    // Every view shows the texts of the hostile dump as text.
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

    // Another local server never receives the token, and its page gets no data.
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
    assert!(browser.says("contains the access token").len() < 200);
    // The correct address, opened in the same tab.
    browser.open(&served.address);
    browser.says("40 records");
}

/// Starts another server for one request. Returns its port and a handle for the request it received.
fn listen_once() -> (u16, std::thread::JoinHandle<String>) {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let heard = std::thread::spawn(move || {
        loop {
            let (mut stream, _) = listener.accept().expect("somebody comes");
            let mut head = String::new();
            let mut lines = BufReader::new(stream.try_clone().expect("cloned"));
            // A browser may open a connection without a request first.
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
