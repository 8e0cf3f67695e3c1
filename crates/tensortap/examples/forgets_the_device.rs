//! What not to do: a program that runs a scene and never calls `become_device_if_asked`. It is told so, and a test holds the
//! library to that.

fn main() -> Result<(), tensortap::Error> {
    tensortap::run(&tensortap::RunConfig::new("vector_example")).map(|_| ())
}
