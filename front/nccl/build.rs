//! Sets the name of the shared library, and that it stays mapped after `dlclose`.
//!
//! NCCL unloads a plug-in when its last communicator ends. But the process keeps pointers to this
//! library's code: the handler of SIGSEGV and SIGBUS that protects registered memory, and
//! destructors of thread-local variables. So the code stays, and a later `dlopen` finds it again.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnccl-net-fairway.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
