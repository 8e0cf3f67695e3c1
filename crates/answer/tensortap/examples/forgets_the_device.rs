//! A wrong program: it runs a scene without calling `become_device_if_asked`. A test checks that tensortap
//! reports this mistake.

fn main() -> Result<(), tensortap::Error> {
    tensortap::run(&tensortap::RunConfig::new("vector_example")).map(|_| ())
}
