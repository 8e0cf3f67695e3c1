//! `tensortap serve`: its views, used in a real browser.

use std::process::Command;

use serde_json::Value;

use crate::browser::Browser;
use crate::camera::Camera;
use crate::common::executable;
use crate::served::{ServeProcess, run_tiny};

/// Checks that the page contains what `blame` reports: verdict, kind of error, argument, counts, and a link
/// to every task at which an error began.
fn check_blame_agrees(browser: &Browser, shown: &str, wrong: &str, right: &str) {
    let out = Command::new(executable()).args(["blame", wrong, "--golden", right, "--json"]).output();
    let blame: Value = serde_json::from_slice(&out.expect("it runs").stdout).expect("JSON");
    assert!(shown.contains("FAIL"), "{shown}");
    for (label, count) in blame["labels"].as_object().expect("labels") {
        let words = format!("{} {count}", label.replace('_', " "));
        assert!(count == 0 || shown.contains(&words), "{words}: {shown}");
    }
    let of = |list: &str| blame[list].as_array().expect("a list").clone();
    let culprit = of("culprits").swap_remove(0);
    let kind = culprit["records"][0]["kind"]["words"].as_str().expect("a kind").to_owned();
    let first = of("tasks").into_iter().find(|task| task["task_id"] == culprit["task_id"]).expect("listed");
    let outside = &first["outside"][0];
    let counts = format!("{} of {} elements outside", outside["failing"], outside["elements"]);
    let argument = format!("({})", outside["arg_name"].as_str().expect("a name"));
    for words in [&format!("Kind of error: {kind}"), &counts, &argument] {
        assert!(shown.contains(words.as_str()), "{words}: {shown}");
    }
    let links = browser.run("return [...document.querySelectorAll('.began a')].map((a) => a.hash).join(' ')");
    let links = links.as_str().expect("links");
    let roots: Vec<Value> = of("tasks").into_iter().filter(|task| task["label"] == "wrong_here").collect();
    assert!(roots.len() > 1, "{blame}");
    for root in roots {
        let id = root["task_id"]
            .as_str()
            .expect("an id")
            .trim_start_matches("0x")
            .trim_start_matches('0')
            .to_owned();
        assert!(links.contains(&format!("task=0x{id}")), "{id}: {links}");
    }
    let lines = browser.run("return document.querySelectorAll('.graph .line').length").as_u64();
    assert!(lines > Some(3), "the error path is drawn");
}

#[test]
fn all_views_of_a_run_work_in_a_browser() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let right = run_tiny(folder.path(), "right", None);
    let wrong = run_tiny(folder.path(), "wrong", Some(("softmax", "sign")));
    let [right, wrong] = [&right, &wrong].map(|path| path.to_str().expect("text"));
    let served = ServeProcess::start(&[wrong, "--golden", right]);
    let camera = Camera::new(&browser);
    browser.look(1280, 860, false);

    // On opening, the token leaves the address, and the list appears.
    browser.open(&served.address);
    let page = browser.says("attention");
    assert!(page.contains("tiny_llm") && page.contains("rows"), "{page}");
    assert_eq!(browser.run("return location.search + location.hash"), "#/tasks?golden=1");
    // No cookie carries the token to other local servers, and a reloaded page still has it.
    assert_eq!(browser.run("return document.cookie"), "");
    browser.run("location.reload()");
    browser.says("attention");
    // The verdict is above the tasks. Wrong tasks come first, with their labels visible also on a narrow
    // screen.
    let first = browser.says("is wrong here; in all, ");
    assert!(first.contains("FAIL") && first.contains("are wrong here, all softmax"), "{first}");
    let label = "const row = document.querySelector('.rows tbody tr:nth-child(2)'); return row?.cells[1]?.textContent === 'wrong here' && row.cells[1].getBoundingClientRect().right <= innerWidth";
    browser.wait(label);
    browser.look(390, 844, false);
    browser.wait(label);
    browser.look(1280, 860, false);
    camera.take("serve-tasks");

    // Search with the keyboard only: matches, and a suggestion for a misspelled name.
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
    assert!(
        browser.complaints().iter().all(|complaint| complaint.contains("sofmax")),
        "only the bad request failed"
    );
    // Back returns to the previous view.
    browser.run("history.back()");
    browser.wait(
        "return location.hash.includes('softmax') && document.querySelectorAll('.rows tbody tr').length > 8",
    );

    // Blame: the first wrong task. Its label is shown everywhere from then on.
    browser.click("nav a", "Compare");
    browser.click("button", "Find the first wrong task");
    let shown = browser.says("Where errors began");
    check_blame_agrees(&browser, &shown, wrong, right);
    camera.take("serve-blame");

    // Compare every record: those outside their rule come first.
    browser.click("button", "Compare every record");
    browser.says("outside their rule");
    let first = browser.wait("return document.querySelector('.rows tbody tr:nth-child(2)')?.textContent");
    assert!(first.as_str().is_some_and(|row| row.contains("softmax") && row.contains("fail")), "{first}");
    browser.run("location.hash = '#/compare?golden=1&run=compare'");
    browser.wait("return document.querySelectorAll('.rows tbody tr').length > 8");
    camera.take("serve-compare");
    browser.run("location.hash = '#/compare?golden=1&run=blame'");

    // The task: its arguments next to those of the golden.
    browser.click(".culprit a", "task 0x");
    let task = browser.says("Consumers");
    for words in [
        "Producers",
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
    camera.take("serve-task");

    // A tensor: a slice as heat map, numbers and image, with the value under the cursor.
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
    camera.take("serve-tensor");
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
    let printed = String::from_utf8_lossy(&out.stdout).into_owned();
    for number in shown.as_array().expect("numbers") {
        assert!(printed.contains(number.as_str().expect("text")), "{number} is none of\n{page}");
    }
    assert!(
        browser.run("return location.hash").as_str().is_some_and(|hash| hash.contains("slice=1%3A3%2C-2%3A"))
    );
    browser.click(".choice button", "Image");
    browser.wait("return document.querySelector('.image canvas')");

    // The graph: scopes unfold, and a click on a task opens its page.
    browser.click("nav a", "Graph");
    let boxes = "return document.querySelectorAll('.graph .box').length";
    let folded = browser.wait(boxes).as_u64().expect("a count");
    camera.take("serve-graph");
    browser.click(".graph .box", "token 3");
    browser.wait(&format!("return document.querySelectorAll('.graph .box').length > {folded}"));
    browser.click(".controls button", "− token 3");
    browser.wait(&format!("return document.querySelectorAll('.graph .box').length === {folded}"));
    browser.click(".controls button", "How the error spread");
    browser.wait("return [...document.querySelectorAll('.graph .box')].some((box) => box.textContent.includes('softmax'))");
    browser.click(".graph .box", "softmax");
    browser.says("Consumers");

    // The timeline: it has every task, and a key opens one.
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
    camera.take("serve-timeline");
    browser.run("document.querySelector('.timeline canvas').focus()");
    browser.type_keys("nn\u{e007}");
    browser.says("Consumers");

    assert_eq!(browser.complaints(), [""; 0], "nothing went wrong in the pages");
}

#[test]
fn the_address_keeps_the_search_and_unknown_names_are_reported() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = run_tiny(folder.path(), "wrong", Some(("softmax", "sign")));
    let served = ServeProcess::start(&[wrong.to_str().expect("text")]);
    browser.look(1280, 860, false);
    browser.open(&served.address);
    browser.says("attention");

    // The sort order of a list survives a reload.
    browser.click(".rows th button", "Took");
    browser.wait("return location.hash === '#/tasks?sort=-took'");
    let slowest = served.document("/api/tasks?sort=-took&count=1")["rows"][0]["task"].clone();
    let first = format!(
        "return document.querySelector('.rows tbody tr:nth-child(2)')?.cells[0].textContent === {slowest}"
    );
    browser.wait(&first);
    browser.run("location.reload()");
    browser.wait(&first);
    browser.wait("return document.querySelector('th[aria-sort=descending]')?.textContent.includes('Took')");

    // A scope path of a task, as in `show`.
    browser.type_keys("/");
    browser.type_keys("layer1/k_proj\u{e007}");
    let found = browser.wait("const n = document.querySelector('.table-count')?.textContent; return n?.includes(' of ') ? n : null");
    let all = served.document("/api/tasks?q=k_proj")["total"].as_u64().expect("a count");
    let count =
        found.as_str().and_then(|words| words.split(' ').next()?.parse::<u64>().ok()).expect("a count");
    assert!(count > 0 && count < all, "{found}, of {all} in all layers");
    // An unknown selector and an unknown view.
    browser.run("location.hash = '#/tasks?q=size:3'");
    assert!(
        browser.says("there is no selector `size`").contains("task, step, func"),
        "the known ones are listed"
    );
    browser.run("location.hash = '#/nowhere'");
    assert!(browser.says("There is no view nowhere.").contains("Timeline"), "the known ones are listed");

    // With references errors do not spread; the tasks at which errors began are connected in order.
    browser.run("location.hash = '#/compare?golden=reference&run=blame'");
    browser.says("errors began, in order");
    let joined = browser.wait(
        "const boxes = [...document.querySelectorAll('.graph .box')]; const lines = document.querySelectorAll('.graph .through');
         return boxes.length > 4 && lines.length >= boxes.length - 4 ? [boxes.length, lines.length] : null",
    );
    assert!(joined.is_array(), "{joined}");
}
