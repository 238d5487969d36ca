//! The command `xtask tidy` as a separate program, which builds in seconds.

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    fairway_tidy::main(&arguments)
}
