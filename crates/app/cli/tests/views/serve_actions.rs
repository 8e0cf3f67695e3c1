//! `tensortap serve`: replay, export and cancel from pages.

use crate::browser::Browser;
use crate::served::{ServeProcess, run_tiny};

#[test]
fn with_actions_allowed_the_api_replays_exports_and_cancels() {
    let folder = tempfile::tempdir().expect("a folder");
    let dump = run_tiny(folder.path(), "dump", None);
    let served = ServeProcess::start(&[dump.to_str().expect("text"), "--allow-actions"]);
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
    // A GET request never changes anything.
    assert!(
        served.raw(&["GET /api/replay?task=softmax HTTP/1.1", &host, &token]).starts_with("HTTP/1.1 404")
    );
}

/// Sorted file names of a folder.
fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("read").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_page_exports_and_replays_or_shows_how_to_allow_it() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let dump = run_tiny(folder.path(), "dump", None);
    let dump = dump.to_str().expect("text");
    {
        let served = ServeProcess::start(&[dump]);
        browser.open(&served.address);
        browser.says("attention");
        browser.run("location.hash = '#/records?q=func:softmax'");
        browser.click("button", "Export these records");
        let page = browser.says("--allow-actions");
        assert!(page.contains(&format!("serve {dump} --allow-actions")), "{page}");
        assert_eq!(names(folder.path()), ["dump"], "nothing was written");
        // Jobs that only read can be canceled without --allow-actions.
        let job = served.document("/api/blame?golden=reference");
        assert_eq!(served.post(&format!("/api/cancel?job={}", job["job"]))["job"], job["job"]);
        assert_ne!(served.ended(job)["state"], "running");
    }
    let served = ServeProcess::start(&[dump, "--allow-actions"]);
    browser.open(&served.address);
    browser.says("attention");
    browser.run("location.hash = '#/records?q=func:softmax+stage:after'");
    browser.click("button", "Export these records");
    let out = folder.path().join("dump_npy");
    let page = browser.says(out.to_str().expect("text"));
    let files = names(&out).iter().filter(|name| name.ends_with(".npy")).count();
    assert!(files > 3 && page.contains(&format!("{files} files of {files} records")), "{files}: {page}");
    assert_eq!(names(folder.path()), ["dump", "dump_npy"], "no partial folder is left");
    browser.run("location.hash = '#/task?task=softmax'");
    browser.click("button", "Replay this task");
    browser.says("Replay: pass; 1 of 1 bit-exact");
    // Cancel: the button appears with the progress.
    browser.run("location.hash = '#/records'");
    browser.click("button", "Export all records");
    browser.click("button", "Cancel");
    let ended =
        browser.wait("return document.querySelector('.exported, .outcome-frame .trouble')?.textContent");
    let ended = ended.as_str().expect("text");
    assert!(ended.contains("canceled") || ended.contains("files of"), "{ended}");
    assert!(
        names(folder.path()).iter().all(|name| !name.ends_with(".partial")),
        "{:?}",
        names(folder.path())
    );
}
