//! Output on a terminal: tables that fit, and progress bars.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use rustix::termios::{Winsize, tcsetwinsize};

use crate::command;
use crate::dumps::Folder;

/// Both ends of a terminal: the one that the user sees and the one that a program writes to.
fn terminal() -> (File, File) {
    let seen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&seen).and_then(|()| unlockpt(&seen)).expect("it can be used");
    let path = ptsname(&seen, Vec::new()).expect("it has a name").into_string().expect("UTF-8");
    let noctty = i32::try_from(OFlags::NOCTTY.bits()).expect("a flag");
    let written = File::options().read(true).write(true).custom_flags(noctty).open(path).expect("it opens");
    (File::from(seen), written)
}

/// Standard error of a call on a terminal.
fn on_terminal(line: &str) -> String {
    let (mut seen, written) = terminal();
    let mut command = command(&line.split_whitespace().collect::<Vec<_>>());
    command.env("TERM", "xterm").stdout(Stdio::null()).stderr(Stdio::from(OwnedFd::from(written)));
    let mut child = command.spawn().expect("the binary starts");
    drop(command);
    let mut text = Vec::new();
    // When the last writer closes the terminal, reading fails.
    let _ = seen.read_to_end(&mut text);
    child.wait().expect("it ends");
    String::from_utf8_lossy(&text).into_owned()
}

/// Standard output of a call on a terminal with this many columns.
fn on_screen(folder: &Folder, line: &str, columns: u16) -> String {
    let (mut seen, written) = terminal();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&written, size).expect("it has a size");
    let mut command = command(&line.split_whitespace().collect::<Vec<_>>());
    command.current_dir(folder.path(".")).env("NO_COLOR", "1");
    command.stdout(Stdio::from(OwnedFd::from(written))).stderr(Stdio::null());
    let mut child = command.spawn().expect("the binary starts");
    drop(command);
    let mut text = Vec::new();
    let _ = seen.read_to_end(&mut text);
    child.wait().expect("it ends");
    String::from_utf8_lossy(&text).replace('\r', "")
}

/// The lines of a table, from its headings on.
fn table<'a>(text: &'a str, head: &str) -> Vec<&'a str> {
    let ends = |line: &&str| !["Left out", "Sorted", "and "].iter().any(|word| line.starts_with(word));
    let lines = text.lines().skip_while(|line| !line.trim_start().starts_with(head));
    if head == "SCENE" {
        lines.take_while(ends).collect()
    } else {
        lines.take_while(ends).take_while(|l| !l.is_empty()).collect()
    }
}

#[test]
fn tables_fit_the_terminal_and_name_missing_columns() {
    let folder = Folder::new();
    for (out, fault) in [("right", ""), ("wrong", " --inject-fault softmax=last")] {
        folder.tensortap(&format!("run paged_attention --dump-tensor --out {out}{fault}"));
    }
    for (line, head, left_out) in [
        ("list wrong", "INDEX", "kind, bytes, role"),
        ("stats wrong", "INDEX", "hash, role, zeros"),
        ("diff wrong right", "RECORD", "dtype, shape, rule"),
        ("diff wrong right --all", "RECORD", "dtype, shape, rule"),
        ("diff wrong --scene-golden", "OUTPUT", "rule"),
        ("scenes", "SCENE", "parameters"),
        ("bench diff --bytes 64KiB --repeat 1 --python none", "SET", "min – max"),
        ("bench dispatch --tasks 50 --repeat 1 --all", "SHAPE", ""),
        ("bench capture --repeat 1", "VIEW", "min – max"),
    ] {
        let text = on_screen(&folder, line, 80);
        let rows = table(&text, head);
        assert!(rows.len() > 1, "{line}: {text}");
        let widest = rows.iter().map(|row| row.chars().count()).max();
        assert!(widest <= Some(80), "{line}: {widest:?} columns\n{text}");
        let named = format!("Left out to fit 80 columns: {left_out}");
        assert_eq!(text.contains(&named), !left_out.is_empty(), "{line}: {text}");
        let wide = on_screen(&folder, line, 250);
        assert!(!wide.contains("Left out"), "{line}: {wide}");
    }
}

#[test]
fn list_fits_the_terminal_height_unless_all() {
    let folder = Folder::new();
    folder.record("paged_attention --dump-tensor=meta", "d");
    let records = |text: &str| table(text, "INDEX").len() - 1;
    let piped = folder.good("list d").stdout;
    let total = records(&piped);
    assert!(total > 50 && !piped.contains("screen"), "{piped}");
    let screen = on_screen(&folder, "list d", 200);
    assert_eq!(records(&screen), 14, "{screen}");
    assert!(screen.lines().count() < 24, "{screen}");
    let said = "14 shown (limited to the terminal height; --all shows every record, --limit N shows N).";
    assert!(screen.contains(said), "{screen}");
    assert!(screen.contains(&format!("{total} records: ")), "{screen}");
    for (line, shown) in [("list d --all", total), ("list d --limit 40", 40), ("list d --index 0-13", 14)] {
        let text = on_screen(&folder, line, 200);
        assert_eq!(records(&text), shown, "{line}: {text}");
        assert!(!text.contains("screen"), "{line}: {text}");
    }
    assert_eq!(on_screen(&folder, "list d --csv", 200).lines().count(), total + 1);
}

#[test]
fn a_long_run_shows_and_removes_a_progress_bar() {
    for runtime in tensortap::RUNTIMES.iter().map(|r| r.name()) {
        let text = on_terminal(&format!("run hang --runtime {runtime} --stall-timeout 2s"));
        assert!(text.contains("80% 4 of 5 tasks done, ") && text.contains("===>"), "{runtime}: {text:?}");
        let (_, after) = text.rsplit_once("tasks done").expect("seen above");
        assert!(after.contains("\u{1b}[2K") && after.contains("error: hang in"), "{runtime}: {text:?}");
    }
}

#[test]
fn quiet_hides_the_progress_bar() {
    let text = on_terminal("run hang --stall-timeout 2s --quiet");
    assert!(text.contains("error: hang in") && !text.contains("tasks done"), "{text:?}");
}
