//! The `fairway` tool.

fn main() -> std::process::ExitCode {
    fairway_cli::main()
}
