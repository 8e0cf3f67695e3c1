//! `tensortap serve`: what pages run and write, with leave.

use crate::browser::Browser;
use crate::served::{Served, run_tiny};

#[test]
fn with_leave_a_page_replays_and_exports_and_gives_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = run_tiny(folder.path(), "dump", None);
    let served = Served::start(&[dump.to_str().expect("text"), "--allow-actions"]);
    let host = format!("Host: 127.0.0.1:{}", served.port());
    let token = served.token();
    let (post, ended) = (|path: &str| served.post(path), |job| served.ended(job));
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

/// Names in a folder.
fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("read").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_page_exports_and_replays_with_leave_and_says_how_to_give_it() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let dump = run_tiny(folder.path(), "dump", None);
    let dump = dump.to_str().expect("text");
    {
        let served = Served::start(&[dump]);
        browser.open(&served.address);
        browser.says("attention");
        browser.run("location.hash = '#/records?q=func:softmax'");
        browser.click("button", "Export these records");
        let told = browser.says("--allow-actions");
        assert!(told.contains(&format!("serve {dump} --allow-actions")), "{told}");
        assert_eq!(names(folder.path()), ["dump"], "nothing was written");
        // What only reads is given up without leave.
        let job = served.document("/api/blame?golden=reference");
        assert_eq!(served.post(&format!("/api/cancel?job={}", job["job"]))["job"], job["job"]);
        assert_ne!(served.ended(job)["state"], "running");
    }
    let served = Served::start(&[dump, "--allow-actions"]);
    browser.open(&served.address);
    browser.says("attention");
    browser.run("location.hash = '#/records?q=func:softmax+stage:after'");
    browser.click("button", "Export these records");
    let out = folder.path().join("dump_npy");
    let told = browser.says(out.to_str().expect("text"));
    let files = names(&out).iter().filter(|name| name.ends_with(".npy")).count();
    assert!(files > 3 && told.contains(&format!("{files} files of {files} records")), "{files}: {told}");
    assert_eq!(names(folder.path()), ["dump", "dump_npy"], "nothing half is left");
    browser.run("location.hash = '#/task?task=softmax'");
    browser.click("button", "Replay this task");
    browser.says("Replay: pass; 1 of 1 bit-exact");
    // Given up: as soon as it says how far it has come there is a button for it.
    browser.run("location.hash = '#/records'");
    browser.click("button", "Export all records");
    browser.click("button", "Cancel");
    let ended =
        browser.wait("return document.querySelector('.exported, .outcome-frame .trouble')?.textContent");
    let ended = ended.as_str().expect("text");
    assert!(ended.contains("stopped") || ended.contains("files of"), "{ended}");
    assert!(
        names(folder.path()).iter().all(|name| !name.ends_with(".partial")),
        "{:?}",
        names(folder.path())
    );
}
