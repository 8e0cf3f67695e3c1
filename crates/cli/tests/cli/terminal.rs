//! What moves on a terminal while something takes its time.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::command;

/// Both ends of a terminal: what a person sees, and what a program writes to.
fn terminal() -> (File, File) {
    let seen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&seen).and_then(|()| unlockpt(&seen)).expect("it can be used");
    let path = ptsname(&seen, Vec::new()).expect("it has a name").into_string().expect("UTF-8");
    let noctty = i32::try_from(OFlags::NOCTTY.bits()).expect("a flag");
    let written = File::options().read(true).write(true).custom_flags(noctty).open(path).expect("it opens");
    (File::from(seen), written)
}

/// Standard error of a call, as a terminal shows it.
fn on_terminal(line: &str) -> String {
    let (mut seen, written) = terminal();
    let mut command = command(&line.split_whitespace().collect::<Vec<_>>());
    command.env("TERM", "xterm").stdout(Stdio::null()).stderr(Stdio::from(OwnedFd::from(written)));
    let mut child = command.spawn().expect("the binary starts");
    drop(command);
    let mut text = Vec::new();
    // The last writer closes the terminal, which reads as an error.
    let _ = seen.read_to_end(&mut text);
    child.wait().expect("it ends");
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn a_run_of_more_than_a_second_shows_a_bar_and_removes_it() {
    for runtime in tensortap::RUNTIMES.iter().map(|r| r.name()) {
        let text = on_terminal(&format!("run hang --runtime {runtime} --stall-timeout 2s"));
        assert!(text.contains("80% 4 of 5 tasks done, ") && text.contains("===>"), "{runtime}: {text:?}");
        let (_, after) = text.rsplit_once("tasks done").expect("seen above");
        assert!(after.contains("\u{1b}[2K") && after.contains("error: hang in"), "{runtime}: {text:?}");
    }
}

#[test]
fn nobody_is_shown_a_bar_who_wants_quiet() {
    let text = on_terminal("run hang --stall-timeout 2s --quiet");
    assert!(text.contains("error: hang in") && !text.contains("tasks done"), "{text:?}");
}
