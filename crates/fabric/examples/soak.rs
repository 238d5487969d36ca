#![allow(missing_docs)]
#[path = "../../../xtask/src/storm.rs"]
mod storm;
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let r = if arguments.first().is_some_and(|a| a == "canaries") {
        storm::canaries()
    } else {
        storm::run(&arguments)
    };
    if let Err(e) = r {
        println!("{e}");
        std::process::exit(1)
    }
}
