//! Pictures of the graph: the same tasks and lines in every format, with all names escaped.

use std::fs;

use tensortap::abi::Role;
use tensortap::format::WriterOptions;
use tensortap::{DType, DumpStage};

use crate::dumps::Folder;
use crate::json::document;
use crate::made::DumpMaker;

/// Pairs of tasks with data between them, from the output of `show`.
fn pairs(folder: &Folder, tasks: &[&str]) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for task in tasks {
        let page = document(&folder.good(&format!("show d {task} --json")));
        let name = page["task_name"].as_str().expect("a name").to_owned();
        for producer in page["producers"].as_array().expect("producers") {
            pairs.push((producer["task_name"].as_str().expect("a name").to_owned(), name.clone()));
        }
    }
    pairs.sort();
    pairs
}

/// The same from a picture in DOT or Mermaid.
fn drawn(text: &str, arrows: [&str; 2]) -> Vec<(String, String)> {
    let mut names = Vec::new();
    for line in text.lines().filter(|line| line.contains("label=\"t") || line.contains("[\"t")) {
        let (_, rest) = line.split_once('"').expect("a name");
        names.push(rest.split(['\\', '<', '"']).next().expect("a name").to_owned());
    }
    let mut pairs = Vec::new();
    for line in text.lines() {
        let Some((from, to)) = arrows.iter().find_map(|arrow| line.split_once(arrow)) else { continue };
        let number = |word: &str| -> usize {
            let digits: String =
                word.trim().trim_start_matches('t').chars().take_while(char::is_ascii_digit).collect();
            digits.parse().expect("a number")
        };
        pairs.push((names[number(from)].clone(), names[number(to)].clone()));
    }
    pairs.sort();
    pairs
}

#[test]
fn every_format_draws_the_same_tasks_and_lines() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "d");
    let expected = pairs(&folder, &["t0", "t1", "t2", "t3", "t4"]);
    assert!(expected.len() >= 5, "{expected:?}");
    assert_eq!(drawn(&folder.good("graph d").stdout, [" -> ", " -> "]), expected);
    assert_eq!(drawn(&folder.good("graph d --format mermaid").stdout, [" --> ", " -.-> "]), expected);
    folder.good("graph d -o g.svg");
    let svg = fs::read_to_string(folder.path("g.svg")).expect("a picture");
    assert_eq!((svg.matches("<rect ").count(), svg.matches("marker-end").count()), (5, expected.len()));
    // Near t3, one line away.
    let near = folder.good("graph d --around t3 --hops 1").stdout;
    assert_eq!(
        drawn(&near, [" -> ", " -> "]).len(),
        expected.iter().filter(|p| p.0 == "t3" || p.1 == "t3").count(),
        "{near}"
    );
    // Four of the tasks are in one scope.
    let folded = folder.good("graph d --fold 1").stdout;
    assert!(folded.contains("label=\"inner\\n4 tasks\""), "{folded}");
}

#[test]
fn labels_color_how_an_error_spread() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "right");
    folder.tensortap("run vector_example --dump-tensor --out d --inject-fault mul=sign");
    // With references, downstream tasks are right for their inputs.
    for (against, lines) in [("--golden right", 1), ("--reference", 0)] {
        let way = folder.good(&format!("graph d {against} --way")).stdout;
        assert_eq!((way.matches("wrong_here").count(), way.matches(" -> ").count()), (1, lines), "{way}");
    }
    let none = folder.tensortap("graph right --reference --way");
    assert!(none.code == Some(2) && none.stderr.contains("no task is wrong"), "{none:?}");
    for (line, why) in [
        ("graph d --way", "--golden"),
        ("graph d -o picture.png", "use the suffix .svg"),
        ("graph d --around nobody", "there is no task nobody"),
        ("graph d -o nowhere/g.svg", "nowhere/g.svg"),
    ] {
        let refused = folder.tensortap(line);
        assert!(
            refused.code.is_some_and(|code| code >= 2) && refused.stderr.contains(why),
            "{line}: {refused:?}"
        );
    }
}

#[test]
fn folded_scopes_keep_the_order_of_their_tasks() {
    let folder = Folder::new();
    folder.record("tiny_llm --param tokens=2 --param prompt=1 --dump-tensor", "run");
    let dot = folder.good("graph run --fold 2 --format dot").stdout;
    // Tasks directly in a token, before and after its layers, are drawn by name, so no line leads back.
    assert!(dot.contains("token 0 / layer 1") && dot.contains("token 0 / lm_head"), "{dot}");
    let lines = drawn(&dot, [" -> ", " -> "]);
    assert!(!lines.is_empty());
    let reaches = |from: &str, to: &str| lines.iter().any(|(a, b)| a == from && b == to);
    assert!(lines.iter().all(|(from, to)| !reaches(to, from)), "{lines:?}");
    let document = document(&folder.good("graph run --fold 2 --json -o picture.svg"));
    assert_eq!(document["boxes"].as_array().map(Vec::len), Some(12), "{document}");
    assert!(folder.path("picture.svg").is_file());
    let deep = folder.good("graph run --fold 8 --format dot").stdout;
    assert_eq!(deep, folder.good("graph run --fold 3 --format dot").stdout, "scopes are three deep");
}

#[test]
fn escapes_names_in_every_format() {
    let hostile = "</text><script>alert(1)</script>\"];x -> y;";
    let folder = Folder::new();
    let mut made = DumpMaker::named(&folder.path("d"), 2, WriterOptions::default(), hostile);
    made.task(7, 1, DumpStage::AfterCompletion);
    made.tensor(Role::Output, 0, DType::Int32, &[1], &[1, 0, 0, 0]);
    made.finish();
    folder.good("graph d -o g.svg");
    let svg = fs::read_to_string(folder.path("g.svg")).expect("a picture");
    assert!(!svg.contains("<script") && svg.contains("&lt;script&gt;"), "{svg}");
    let dot = folder.good("graph d").stdout;
    assert!(dot.contains("script>\\\"];x") && !dot.contains("script>\"]"), "{dot}");
    let mermaid = folder.good("graph d --format mermaid").stdout;
    assert!(!mermaid.contains("<script") && !mermaid.contains("\"];x"), "{mermaid}");
}
