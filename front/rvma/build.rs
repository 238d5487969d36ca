//! Sets the soname of the shared library.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librvma.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
