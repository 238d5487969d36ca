//! Checks the installed files: the header, the libraries' symbols, and a man page for every call.

mod common;

use common::{Installed, functions_of_the_header, has, here, output, text};
use std::fs;
use std::process::Command;

/// Defined in the header itself.
const INLINE: &str = "RVMA_Load_ptr";

#[test]
fn the_header_is_plain_c_and_cpp() {
    let skipped = "the check of the header";
    let dialects: [(&str, &[&str]); 5] = [
        ("cc", &["-xc", "-std=c11"]),
        ("cc", &["-xc", "-std=gnu17", "-include", "sys/ipc.h"]),
        ("c++", &["-xc++", "-std=c++11"]),
        ("c++", &["-xc++", "-std=c++20", "-include", "sys/ipc.h"]),
        ("c++", &["-xc++", "-std=c++20", "-fno-exceptions", "-fno-rtti"]),
    ];
    for ((compiler, arguments), names) in
        dialects.iter().flat_map(|dialect| [(dialect, None), (dialect, Some("-DRVMA_PAPER_NAMES"))])
    {
        if has(compiler, skipped) {
            output(
                Command::new(compiler)
                    .args(*arguments)
                    .args(names)
                    .args(["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
                    .arg(here().join("include"))
                    .arg(here().join("tests/c/header.c")),
            );
        }
    }
}

#[test]
fn every_function_has_a_man_page() {
    let functions = functions_of_the_header();
    assert!(functions.len() > 30, "only {} functions found", functions.len());
    for function in &functions {
        let page = text(&format!("man/{function}.3"));
        // The page is a link to another page, or the text itself.
        let page = match page.strip_prefix(".so man3/") {
            Some(other) => text(&format!("man/{}", other.trim())),
            None => page,
        };
        let names = page.split(".SH SYNOPSIS").next().unwrap_or_default();
        assert!(names.contains(function.as_str()), "{function} is not named by its page");
        assert!(page.contains(&format!("{function}(")), "{function} is not in a synopsis");
    }
    for entry in fs::read_dir(here().join("man")).expect("the man pages") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        let (stem, section) = name.rsplit_once('.').expect("a section");
        let is_function = functions.iter().any(|function| function == stem);
        assert!(is_function || section == "7", "{name} describes no function");
    }
}

#[test]
fn every_status_is_in_the_overview() {
    let overview = text("man/rvma.7");
    let header = text("include/rvma.h");
    let statuses = header.lines().filter_map(|line| line.trim().split_once(" = "));
    for (status, _) in statuses.filter(|(name, _)| name.starts_with("RVMA_ERR_")) {
        assert!(overview.contains(status), "rvma.7 lacks {status}");
    }
    for variable in ["BIND", "PORT", "SOCKETS", "PATHS", "POLICY", "EMULATE", "SEED"] {
        assert!(overview.contains(&format!("RVMA_{variable}")), "rvma.7 lacks RVMA_{variable}");
    }
}

#[test]
fn the_man_pages_are_well_formed() {
    if !has("groff", "the check of the man pages' form") {
        return;
    }
    for entry in fs::read_dir(here().join("man")).expect("the man pages") {
        let page = entry.expect("an entry").path();
        if fs::read_to_string(&page).expect("a page").starts_with(".so") {
            continue;
        }
        let result = Command::new("groff")
            .args(["-man", "-ww", "-z", "-Tutf8"])
            .arg(&page)
            .output()
            .expect("groff runs");
        let complaints = String::from_utf8_lossy(&result.stderr);
        assert!(result.status.success() && complaints.is_empty(), "{complaints}");
    }
}

#[test]
fn the_libraries_export_what_the_header_declares() {
    let Some(installed) = Installed::new("rvma-package") else { return };
    let mut declared = functions_of_the_header();
    declared.retain(|function| function != INLINE);
    let shared = installed.path("lib/librvma.so.0");
    if has("nm", "the check of exported symbols") {
        let listed = output(Command::new("nm").args(["-D", "--defined-only", "-P"]).arg(&shared));
        let mut exported: Vec<&str> =
            listed.lines().filter_map(|line| line.split(' ').next()).collect();
        exported.sort_unstable();
        assert_eq!(exported, declared);
    }
    if has("readelf", "the check of the soname") {
        let dynamic = output(Command::new("readelf").arg("-d").arg(&shared));
        assert!(dynamic.contains("soname: [librvma.so.0]"), "{dynamic}");
    }
    assert_eq!(installed.flags(&["--modversion"]), ["0.1.0"]);
    for file in ["include/rvma.h", "lib/librvma.a", "lib/librvma.so", "share/man/man7/rvma.7"] {
        assert!(installed.path(file).is_file(), "{file} is not installed");
    }
}
