//! Gives the shared library the name by which programs that link it find it: with the number of its ABI.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtensortap.so.0");
}
