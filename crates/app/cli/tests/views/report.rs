//! `tensortap report`: its page, opened from a file in a real browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::browser::Browser;
use crate::common::executable;
use crate::served::{hostile, run_tiny, run_tokens};

/// Writes a report and opens it.
fn open(browser: &Browser, folder: &Path, args: &[&str]) {
    let page = folder.join("report.html");
    // Run next to the dump, so that screenshots show no local paths.
    let mut command = Command::new(executable());
    let made = command.current_dir(folder).arg("report").args(args).arg("-o").arg(&page).output();
    let made = made.expect("the program starts");
    assert!(matches!(made.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&made.stderr));
    browser.open(&format!("file://{}", page.display()));
}

/// The first cells of a table's visible rows, and its row count.
fn first_cells(browser: &Browser, table: &str) -> (Vec<String>, String) {
    let script = format!(
        "const part = document.querySelector('#{table}');
         return [[...part.querySelectorAll('tbody tr:not([aria-hidden])')].map((row) => row.cells[0].textContent),
                 part.querySelector('.table-count').textContent]"
    );
    let value = browser.run(&script);
    let cells = value[0].as_array().expect("rows").iter().map(|cell| cell.as_str().expect("text").to_owned());
    (cells.collect(), value[1].as_str().expect("a count").to_owned())
}

#[test]
fn a_report_opens_from_a_file_and_can_be_sorted_and_filtered() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let right = run_tiny(folder.path(), "right", None);
    let wrong = run_tiny(folder.path(), "wrong", Some(("softmax", "sign")));
    let [right, wrong] = [&right, &wrong].map(|path| path.to_str().expect("text"));
    browser.look(1280, 900, false);
    open(&browser, folder.path(), &[wrong, "--golden", right]);
    let page = browser.says("Kind of error: ");
    for words in ["Kernel softmax went wrong first", "layer 0 / attention", "the wrong sign", "wrong here"] {
        assert!(page.contains(words), "{words} is missing in {page}");
    }
    // The canvas has several colors.
    let has_colors = browser.wait(
        "const canvas = document.querySelector('.timeline canvas');
         const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
         return new Set(new Uint32Array(data.buffer)).size > 8",
    );
    assert_eq!(has_colors, json!(true));
    assert!(
        browser.run("return document.querySelectorAll('.graph .box-wrong_here').length").as_u64() > Some(0)
    );

    // The heat map shows the value under the cursor, also by keyboard.
    browser.run("document.querySelector('.heatmap canvas').focus()");
    browser.type_keys("\u{e014}");
    let value = browser.wait("return document.querySelector('.heatmap .readout').textContent.includes('at 0') && document.querySelector('.heatmap .readout').textContent");
    assert!(value.as_str().is_some_and(|words| words.contains("-2")), "{value}");

    // Sort by number of tasks, descending and ascending.
    browser.wait("return document.querySelectorAll('#kernels tbody tr:not([aria-hidden])').length > 5");
    let column = "return [...document.querySelectorAll('#kernels tbody tr:not([aria-hidden])')].map((row) => Number(row.cells[2].textContent.replaceAll(',', '')))";
    let sorted = |descending: bool| {
        browser.click("#kernels th button", "Tasks");
        let numbers = browser.run(column);
        let numbers: Vec<u64> =
            numbers.as_array().expect("rows").iter().filter_map(serde_json::Value::as_u64).collect();
        let mut expected = numbers.clone();
        expected.sort_unstable();
        if descending {
            expected.reverse();
        }
        assert!(numbers.len() > 5 && numbers == expected, "{numbers:?}");
    };
    sorted(true);
    sorted(false);

    // Filter by words of any column. Only the visible rows are in the page.
    let (rows, all) = first_cells(&browser, "records");
    assert!(rows.len() < 60 && all.ends_with(" rows"), "{} rows in the page, {all}", rows.len());
    browser.run("document.querySelector('#records .table-filter').focus()");
    browser.type_keys("softmax after fail");
    // The table filters while keys arrive, so wait until it has filtered by the last word.
    let count = browser.wait("const n = document.querySelector('#records .table-count').textContent; const rows = [...document.querySelectorAll('#records tbody tr:not([aria-hidden])')]; return n.includes(' of ') && rows.every((row) => row.textContent.includes('fail')) && n");
    let shown = browser.run("return [...document.querySelectorAll('#records tbody tr:not([aria-hidden])')].map((row) => row.textContent)");
    let shown = shown.as_array().expect("rows");
    assert!(
        !shown.is_empty() && count.as_str().is_some_and(|words| words.ends_with(&all)),
        "{count}: {shown:?}"
    );
    assert!(
        shown
            .iter()
            .all(|row| row.as_str().is_some_and(|row| row.contains("softmax") && row.contains("fail"))),
        "{shown:?}"
    );

    // A narrow page does not scroll sideways.
    browser.look(390, 800, true);
    browser.wait("return document.documentElement.scrollWidth <= 390");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    photograph(&browser, "report");
}

/// Takes screenshots for the documentation, if requested.
fn photograph(browser: &Browser, name: &str) {
    let Some(folder) = std::env::var_os("TENSORTAP_SCREENSHOTS").map(PathBuf::from) else { return };
    browser.run("scrollTo(0, 0)");
    for (width, dark) in [(1280, false), (1280, true), (390, false), (390, true)] {
        browser.look(width, 1100, dark);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let scheme = if dark { "dark" } else { "light" };
        browser.screenshot(&folder.join(format!("{name}-{width}-{scheme}.png")));
    }
}

#[test]
fn a_report_never_runs_text_of_a_hostile_dump() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    hostile(&folder.path().join("dump"));
    open(&browser, folder.path(), &[folder.path().join("dump").to_str().expect("text")]);
    let page = browser.says("NOT JUDGED");
    assert!(page.contains("onerror=\"window.attacked=1\""), "it is shown as text: {page}");
    browser.wait("return document.querySelectorAll('#tasks tbody tr:not([aria-hidden])').length === 3");
    assert_eq!(browser.run("return [window.attacked ?? 0, document.images.length]"), json!([0, 0]));
    assert_eq!(browser.run("return document.scripts.length"), json!(2));
    assert_eq!(browser.complaints(), Vec::<String>::new());
    // The page's policy blocks an injected script.
    browser.run("const s = document.createElement('script'); s.textContent = 'window.attacked = 1'; document.body.append(s)");
    assert_eq!(browser.run("return window.attacked ?? 0"), json!(0));
    assert!(browser.complaints().iter().any(|complaint| complaint.contains("Content Security Policy")));
}

/// Prints the times, but does not check them.
#[test]
fn a_report_of_ten_thousand_tasks_has_all_rows_in_five_megabytes() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let right = run_tokens(folder.path(), "right", 90, None);
    let wrong = run_tokens(folder.path(), "wrong", 90, Some(("softmax", "sign")));
    let [right, wrong] = [&right, &wrong].map(|path| path.to_str().expect("text"));
    open(&browser, folder.path(), &[wrong, "--golden", right]);
    browser.wait("return document.querySelectorAll('#tasks tbody tr:not([aria-hidden])').length > 5");
    let (rows, count) = first_cells(&browser, "tasks");
    let tasks =
        tensortap::format::Dump::open(Path::new(wrong)).and_then(|dump| dump.tasks()).expect("tasks").len();
    assert!((9_500..10_000).contains(&tasks), "{tasks} tasks");
    assert!(
        rows.len() < 60 && count.replace(',', "") == format!("{tasks} rows"),
        "{} rows in the page, {count}",
        rows.len()
    );
    let label = browser
        .run("return document.querySelector('#tasks tbody tr:not([aria-hidden])').cells[1].textContent");
    assert!(label.as_str().is_some_and(|label| label.contains("wrong")), "the first row is {label}");
    let bytes = std::fs::metadata(folder.path().join("report.html")).expect("a page").len();
    assert!(bytes < 5_000_000, "{bytes} bytes");
    let times = browser.run(
        "const [open] = performance.getEntriesByType('navigation');
         const [paint] = performance.getEntriesByName('first-contentful-paint');
         return [open.domInteractive, paint?.startTime ?? null, open.loadEventEnd]",
    );
    eprintln!("a report of {tasks} tasks, {bytes} bytes: read, painted and loaded after {times} ms");
}

#[test]
fn a_report_shows_wrong_tasks_first_also_on_a_narrow_screen() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = run_tiny(folder.path(), "wrong", Some(("softmax", "sign")));
    browser.look(390, 844, false);
    assert!(wrong.ends_with("wrong"));
    open(&browser, folder.path(), &["wrong", "--reference"]);
    browser.says("FAIL");
    for (table, wanted) in [("tasks", "wrong here"), ("records", "✕ fail"), ("kernels", "20")] {
        let script = format!(
            "const row = document.querySelector('#{table} tbody tr:not([aria-hidden])'); if (!row) return null;
             return [row.cells[1].textContent, row.cells[1].getBoundingClientRect().right <= innerWidth]"
        );
        assert_eq!(browser.wait(&script), json!([wanted, true]), "{table}");
    }
    // With references, errors do not spread; the tasks at which they began are connected by the content
    // passed between them.
    let joined = browser.run("return document.querySelectorAll('#way .through').length").as_u64();
    assert!(joined >= Some(10), "{joined:?} lines");
    let camera = crate::camera::Camera::new(&browser);
    camera.take("report");
}
