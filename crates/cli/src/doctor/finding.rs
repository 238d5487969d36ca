//! What `fairway doctor` reports: a line for each thing it has looked at.

use serde_json::{Value, json};

/// What a reading means for programs over Fairway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// As good as it gets.
    Ok,
    /// Works, and costs time.
    Slower,
    /// Something optional is not there, and what needs it does not work.
    Missing,
    /// Fairway cannot work, or the named machine cannot be reached. Exit status 1.
    Broken,
}

impl Verdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Slower => "slower",
            Verdict::Missing => "missing",
            Verdict::Broken => "broken",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The part of the report it belongs to.
    pub(crate) section: &'static str,
    /// What was looked at.
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
    /// What was found, with figures.
    pub(crate) found: String,
    /// What to do about it: a sentence, or a command.
    pub(crate) remedy: Option<String>,
}

/// A finding that asks for nothing.
pub(crate) fn fine(
    section: &'static str,
    name: impl Into<String>,
    found: impl Into<String>,
) -> Finding {
    let (name, found) = (name.into(), found.into());
    Finding { section, name, verdict: Verdict::Ok, found, remedy: None }
}

impl Finding {
    /// The same with another verdict, and what to do about it.
    pub(crate) fn but(self, verdict: Verdict, remedy: impl Into<String>) -> Finding {
        Finding { verdict, remedy: Some(remedy.into()), ..self }
    }

    /// The finding as an object.
    pub(crate) fn json(&self) -> Value {
        json!({
            "section": self.section,
            "name": self.name,
            "verdict": self.verdict.name(),
            "found": self.found,
            "remedy": self.remedy,
        })
    }
}

/// The report for people.
pub(crate) fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    let mut section = "";
    for finding in findings {
        if finding.section != section {
            section = finding.section;
            text += &format!("\n{section}\n");
        }
        let Finding { name, verdict, found, remedy, .. } = finding;
        text += &format!("  {:<8} {name:<22} {found}\n", verdict.name());
        if let Some(remedy) = remedy {
            text += &format!("  {:<8} {:<22} -> {remedy}\n", "", "");
        }
    }
    text + "\n" + &summary(findings) + "\n"
}

/// What is broken, by name, and how much else there is.
pub(crate) fn summary(findings: &[Finding]) -> String {
    let of = |verdict| findings.iter().filter(move |finding| finding.verdict == verdict);
    let broken: Vec<&str> = of(Verdict::Broken).map(|finding| finding.name.as_str()).collect();
    let rest = format!(
        "{} ok, {} slower, {} missing",
        of(Verdict::Ok).count(),
        of(Verdict::Slower).count(),
        of(Verdict::Missing).count()
    );
    match broken.as_slice() {
        [] => format!("nothing is broken: {rest}"),
        broken => format!("broken: {}; {rest}", broken.join(", ")),
    }
}
