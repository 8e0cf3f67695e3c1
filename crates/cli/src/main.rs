//! `tensortap`: runs scenes on simulated accelerators and checks what came of them.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    tensortap_cli::main_with(tensortap_cli::scenes())
}
