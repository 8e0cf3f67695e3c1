//! Sets the soname of the shared library, which includes its ABI version.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtensortap.so.0");
}
