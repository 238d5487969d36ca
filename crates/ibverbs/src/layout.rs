//! Has the C compiler compare layouts with those of the installed header. For tests.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Adds an assertion: `what` is an expression of C, and the compiler refuses the file if it is
/// false.
pub fn assert_line(text: &mut String, what: &str) {
    writeln!(text, "_Static_assert({what}, \"{what}\");").expect("a string takes it");
}

/// Adds assertions about the size of a struct (unless it is `partly` defined) and about the offset
/// of each field, by its own name or by that of the header.
#[macro_export]
macro_rules! layout {
    ($text:ident, $c:literal, $rust:ty $(, $field:ident $(= $cfield:literal)?)*) => {{
        let what = format!("sizeof({}) == {}", $c, size_of::<$rust>());
        $crate::layout::assert_line(&mut $text, &what);
        $crate::layout!(partly $text, $c, $rust $(, $field $(= $cfield)?)*);
    }};
    (partly $text:ident, $c:literal, $rust:ty $(, $field:ident $(= $cfield:literal)?)*) => {{
        $({
            #[allow(unused_mut, unused_assignments)]
            let mut name = stringify!($field);
            $(name = $cfield;)?
            let at = std::mem::offset_of!($rust, $field);
            $crate::layout::assert_line(&mut $text, &format!("offsetof({}, {name}) == {at}", $c));
        })*
    }};
}

/// True if there is a C compiler and the header, with which assertions can be checked.
#[must_use]
pub fn can_check() -> bool {
    let result = Command::new("cc")
        .args(["-xc", "-fsyntax-only", "-include", "infiniband/verbs.h", "/dev/null"])
        .output();
    result.is_ok_and(|result| result.status.success())
}

/// Passes assertions to the C compiler, by a file of this name in `folder`.
///
/// # Panics
/// One of them is false, and the compiler says which; or the file cannot be written.
pub fn check(folder: &Path, name: &str, assertions: &str) {
    let file = folder.join(format!("{name}-{}.c", std::process::id()));
    let text = format!("#include <stddef.h>\n#include <infiniband/verbs.h>\n{assertions}");
    std::fs::write(&file, text).unwrap();
    let result = Command::new("cc").arg("-fsyntax-only").arg(&file).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
}
