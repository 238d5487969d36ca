//! Gives the shared library its name among versions.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librvma.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
