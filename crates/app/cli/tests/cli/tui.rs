//! The viewer in a real terminal of `tmux`: every view, resizing, quitting, a signal and a panic.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::executable;
use crate::dumps::Folder;

/// A tmux server that ends with the test.
struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    /// `None`, with a notice, if tmux is not installed.
    fn start(folder: &Folder, script: &str) -> Option<Tmux> {
        if Command::new("tmux").arg("-V").output().is_err() {
            assert!(std::env::var_os("TENSORTAP_SKIP_NOTHING").is_none(), "there is no tmux");
            eprintln!("SKIPPED: the viewer in a terminal, as there is no tmux here");
            return None;
        }
        let tmux = Tmux { socket: folder.path("tmux") };
        let script = format!("cd '{}'; {script}; sleep 600", folder.path("").display());
        tmux.call(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "sh", "-c", &script]);
        Some(tmux)
    }

    fn call(&self, args: &[&str]) -> String {
        let said = Command::new("tmux").arg("-S").arg(&self.socket).args(args).output().expect("tmux starts");
        assert!(said.status.success(), "{args:?}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).expect("UTF-8")
    }

    fn press(&self, keys: &[&str]) {
        self.call(&[&["send-keys"], keys].concat());
    }

    /// Waits until the screen contains a text, and returns the screen.
    fn until(&self, what: &str) -> String {
        let patience = Instant::now() + Duration::from_secs(60);
        loop {
            let screen = self.call(&["capture-pane", "-p"]);
            if screen.contains(what) {
                return screen;
            }
            assert!(Instant::now() < patience, "no `{what}` in:\n{screen}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}

/// A script that calls the viewer and stores the settings of the terminal before and after.
fn script(variables: &str) -> String {
    let binary = executable();
    format!(
        "echo before; stty -g > one; {variables} '{}' tui wrong --golden right; echo status=$?; stty -g > two",
        binary.display()
    )
}

fn made() -> Folder {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "right");
    assert_eq!(
        folder.tensortap("run vector_example --dump-tensor --out wrong --inject-fault mul=sign").code,
        Some(1)
    );
    folder
}

/// Checks that the terminal is restored: main screen, settings, no mouse.
fn assert_terminal_restored(folder: &Folder, tmux: &Tmux, status: u8) {
    let screen = tmux.until(&format!("status={status}"));
    assert!(screen.starts_with("before\n") && !screen.contains("q quit"), "{screen}");
    let read = |name: &str| std::fs::read_to_string(folder.path(name)).expect("settings");
    // This file is written after the status.
    while !folder.path("two").exists() || read("two").is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(read("one"), read("two"));
    assert_eq!(
        tmux.call(&["display-message", "-p", "#{mouse_any_flag} #{alternate_on} #{cursor_flag}"]),
        "0 0 1\n"
    );
}

#[test]
fn visits_every_view_and_restores_the_terminal() {
    let folder = made();
    let Some(tmux) = Tmux::start(&folder, &script("")) else { return };
    tmux.until("5 tasks, by dependency order");
    assert_eq!(tmux.call(&["display-message", "-p", "#{alternate_on}"]), "1\n");
    tmux.press(&["4"]);
    let labels = tmux.until("compared 18 of 18");
    assert!(labels.contains("wrong_here") && labels.contains("inherited"), "{labels}");
    tmux.press(&["Enter"]);
    assert!(tmux.until("label         wrong_here").contains(": mul"));
    // The last tensor is the output of the task.
    tmux.press(&["Home", "Down", "Down", "Enter"]);
    assert!(tmux.until("(0, 0) = ").contains(", after"));
    tmux.press(&["t"]);
    tmux.until("dump minus golden");
    tmux.press(&["m"]);
    let map = tmux.until("dump minus golden");
    assert!(map.contains(['.', '-', '=', '#']), "{map}");
    tmux.press(&["5"]);
    tmux.until("1 consumer");
    tmux.call(&["resize-window", "-x", "60", "-y", "12"]);
    tmux.press(&["1"]);
    assert_eq!(tmux.until("by dependency order").lines().count(), 12);
    tmux.press(&["/"]);
    tmux.press(&["-l", "t2"]);
    tmux.press(&["Enter"]);
    tmux.until("1 of 5 tasks: t2");
    tmux.press(&["?"]);
    tmux.until("tabs: tasks, task");
    tmux.press(&["q", "q"]);
    assert_terminal_restored(&folder, &tmux, 0);
}

#[test]
fn a_panic_and_a_signal_restore_the_terminal() {
    let folder = made();
    let Some(tmux) = Tmux::start(&folder, &script("RUST_BACKTRACE=0 TENSORTAP_TUI_PANIC=1")) else { return };
    tmux.until("5 tasks, by");
    tmux.press(&["j"]);
    tmux.until("a panic that a test asked for");
    assert_terminal_restored(&folder, &tmux, 101);
    drop(tmux);

    let folder = made();
    let Some(tmux) = Tmux::start(&folder, &script("NO_COLOR=1")) else { return };
    tmux.until("5 tasks, by");
    let shell = tmux.call(&["display-message", "-p", "#{pane_pid}"]);
    let children = Command::new("ps").args(["-o", "pid=", "--ppid", shell.trim()]).output().expect("ps");
    let child = String::from_utf8(children.stdout).expect("a number");
    let killed = Command::new("kill").args(["-TERM", child.trim()]).status().expect("kill");
    assert!(killed.success(), "{child}");
    assert_terminal_restored(&folder, &tmux, 143);
}

#[test]
fn a_closed_terminal_ends_the_viewer() {
    let folder = made();
    let Some(tmux) = Tmux::start(&folder, &script("")) else { return };
    tmux.until("tasks");
    let shell = tmux.call(&["display-message", "-p", "#{pane_pid}"]);
    let children = Command::new("ps").args(["-o", "pid=", "--ppid", shell.trim()]).output().expect("ps");
    let child = String::from_utf8(children.stdout).expect("a number").trim().to_owned();
    let process = std::path::Path::new("/proc").join(&child);
    assert!(!child.is_empty() && process.exists());
    drop(tmux);
    let began = std::time::Instant::now();
    while process.exists() {
        assert!(began.elapsed().as_secs() < 60, "{child} goes on without a terminal");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn prints_a_hint_without_a_terminal() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor=meta", "d");
    let refused = folder.tensortap("tui d");
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""));
    assert!(
        refused.stderr.contains("no terminal") && refused.stderr.contains("tensortap list"),
        "{refused:?}"
    );
}
