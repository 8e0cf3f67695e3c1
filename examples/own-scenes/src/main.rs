//! A program with its own scene and the whole command line of tensortap: `cargo run --release -- scenes`.

mod polynomial;

use tensortap::scene::Registry;

fn main() -> std::process::ExitCode {
    tensortap_cli::main_with(Registry::new(&[&polynomial::Polynomial]))
}
