//! Everything that `tensortap` can do, for a scene of our own: `cargo run --release -- scenes`.

mod polynomial;

use tensortap::scene::Registry;

fn main() -> std::process::ExitCode {
    tensortap_cli::main_with(Registry::new(&[&polynomial::Polynomial]))
}
