//! The `tensortap` binary: the command line with the built-in scenes.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    tensortap_cli::main_with(tensortap_cli::scenes())
}
